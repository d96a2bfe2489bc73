//! How an exchange over HTTP/2 ended without an answer, and so whether the request may be sent again, and over what.

use std::error::Error;
use std::io::{self, ErrorKind};

use h2::Reason;

/// What became of a request that was not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The upstream did nothing with it, and its connection is as good as before.
    Refused,
    /// The upstream did nothing with it, and goes: what was sent after the last request that it took is for another connection.
    Leaving,
    /// It alone was broken off: by the upstream, by us because its answer is no HTTP, or because its caller broke off the body.
    Reset,
    /// We gave the connection up: what came is no HTTP/2, or not even a ping was answered, or a segment acknowledged. The upstream may
    /// have done it all.
    GivenUp,
    /// Nobody knows: the connection is gone. An interim answer (1xx) may have come before; hyper does not tell of those.
    Gone,
}

impl Ended {
    /// By what hyper says of it.
    pub(crate) fn of(error: &hyper::Error) -> Ended {
        match source_of(error) {
            _ if error.is_timeout() || source_of(error).is_some_and(is_silence) => Ended::GivenUp,
            Some(error) => Ended::by(error),
            // Also where the connection went while hyper held the request back for want of a stream: it does not say so.
            None => Ended::Gone,
        }
    }

    fn by(error: &h2::Error) -> Ended {
        match error.reason() {
            // Who resets may be us: then something did come.
            Some(Reason::REFUSED_STREAM) if error.is_reset() && error.is_remote() => Ended::Refused,
            _ if error.is_reset() => Ended::Reset,
            // Of a GOAWAY, whatever its reason, only those streams hear that it says were not taken.
            _ if error.is_go_away() && error.is_remote() => Ended::Leaving,
            _ if error.is_go_away() => Ended::GivenUp,
            _ => Ended::Gone,
        }
    }

    /// Whether the upstream promises that it did nothing with the request (RFC 9113, 8.7).
    pub(crate) fn is_unprocessed(self) -> bool {
        matches!(self, Ended::Refused | Ended::Leaving)
    }

    /// Whether its connection ended with it. Who ends only a request is there, and speaks.
    pub(crate) fn is_with_connection(self) -> bool {
        matches!(self, Ended::Leaving | Ended::GivenUp | Ended::Gone)
    }
}

/// Whether the kernel heard nothing of the other end for too long. It tells why the network could not deliver, if it knows.
fn is_silence(error: &io::Error) -> bool {
    use ErrorKind::{HostUnreachable, NetworkUnreachable, TimedOut};
    matches!(error.kind(), TimedOut | HostUnreachable | NetworkUnreachable)
}

/// Whether it is h2 that found what came to be no HTTP/2, and ended the request or the connection for it.
pub(crate) fn is_unreadable(error: &hyper::Error) -> bool {
    source_of(error).is_some_and(h2::Error::is_library)
}

fn source_of<E: Error + 'static>(error: &hyper::Error) -> Option<&E> {
    let mut source = error.source();
    while let Some(error) = source {
        if let Some(error) = error.downcast_ref() {
            return Some(error);
        }
        source = error.source();
    }
    None
}

/// Connections to an address that a request has behind it, by the numbers that the address' pool gave them.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Tried {
    Nothing,
    /// The others are no worse.
    One(u64),
    /// All up to this one: what ended one of them may be about to end them all.
    UpTo(u64),
}

impl Tried {
    /// Whether a request may go over a connection.
    pub(crate) fn leaves(self, number: u64) -> bool {
        match self {
            Tried::Nothing => true,
            Tried::One(tried) => number != tried,
            Tried::UpTo(last) => number > last,
        }
    }
}
