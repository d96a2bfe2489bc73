//! Why a request was not answered by its upstream.

use std::error::Error;
use std::fmt;

use http::StatusCode;

use super::ended::is_unreadable;
use crate::request_body::RequestBodyError;

/// Why a request was not answered by its upstream, and whether the upstream may have seen it.
#[derive(Debug)]
pub struct ForwardError {
    cause: ForwardCause,
    was_never_sent: bool,
    source: Option<Box<dyn Error + Send + Sync>>,
}

/// What went wrong between the gateway and an upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ForwardCause {
    /// Its name has no address.
    Resolve,
    /// It cannot be connected to.
    Connect,
    /// Connecting took too long.
    ConnectTimeout,
    /// It did not begin to answer in time.
    ResponseTimeout,
    /// It closed the connection.
    Closed,
    /// What it answered is no HTTP.
    BadResponse,
    /// The caller's body is larger than allowed.
    RequestTooLarge,
    /// The caller's body came too slowly.
    RequestTooSlow,
    /// The caller broke off its body.
    RequestBroken,
}

impl ForwardCause {
    /// What is wrong with the caller's own body.
    pub(crate) fn of_body(fault: &RequestBodyError) -> ForwardCause {
        match fault {
            RequestBodyError::TooLarge => ForwardCause::RequestTooLarge,
            RequestBodyError::TooSlow => ForwardCause::RequestTooSlow,
            RequestBodyError::Caller(_) => ForwardCause::RequestBroken,
        }
    }

    /// A word for it, for logs and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            ForwardCause::Resolve => "resolve",
            ForwardCause::Connect => "connect",
            ForwardCause::ConnectTimeout => "connect_timeout",
            ForwardCause::ResponseTimeout => "response_timeout",
            ForwardCause::Closed => "closed",
            ForwardCause::BadResponse => "bad_response",
            ForwardCause::RequestTooLarge => "request_too_large",
            ForwardCause::RequestTooSlow => "request_too_slow",
            ForwardCause::RequestBroken => "request_broken",
        }
    }
}

impl ForwardError {
    /// The upstream has not seen a byte of the request, or none that it looked at.
    pub(crate) fn unsent(cause: ForwardCause) -> ForwardError {
        ForwardError { cause, was_never_sent: true, source: None }
    }

    /// The upstream may have seen the request, in part or as a whole.
    pub(crate) fn sent(cause: ForwardCause) -> ForwardError {
        ForwardError { cause, was_never_sent: false, source: None }
    }

    /// The same, but the upstream may have seen the request before.
    pub(crate) fn but_sent(self) -> ForwardError {
        ForwardError { was_never_sent: false, ..self }
    }

    /// The same, but the upstream has not seen a byte.
    pub(crate) fn but_unsent(self) -> ForwardError {
        ForwardError { was_never_sent: true, ..self }
    }

    /// The same, for another reason.
    pub(crate) fn because_of(self, cause: ForwardCause) -> ForwardError {
        ForwardError { cause, ..self }
    }

    pub(crate) fn with(mut self, source: impl Into<Box<dyn Error + Send + Sync>>) -> ForwardError {
        self.source = Some(source.into());
        self
    }

    /// What hyper says of an exchange that failed.
    pub(crate) fn of_exchange(error: hyper::Error, was_never_sent: bool) -> ForwardError {
        let cause = match request_fault(&error) {
            Some(fault) => fault,
            None if error.is_parse() || is_unreadable(&error) => ForwardCause::BadResponse,
            None => ForwardCause::Closed,
        };
        ForwardError { cause, was_never_sent, source: Some(error.into()) }
    }

    /// The caller's own body ended before its end.
    pub(crate) fn of_request_body(error: RequestBodyError) -> ForwardError {
        ForwardError::sent(ForwardCause::of_body(&error)).with(error)
    }

    /// What went wrong.
    pub fn cause(&self) -> ForwardCause {
        self.cause
    }

    /// Whether no byte of the request reached the upstream, or the upstream says that it did nothing with it: what it was
    /// charged can be given back.
    pub fn was_never_sent(&self) -> bool {
        self.was_never_sent
    }

    /// The status that tells the caller.
    pub fn status(&self) -> StatusCode {
        match self.cause {
            ForwardCause::ConnectTimeout | ForwardCause::ResponseTimeout => {
                StatusCode::GATEWAY_TIMEOUT
            }
            ForwardCause::RequestTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            ForwardCause::RequestTooSlow => StatusCode::REQUEST_TIMEOUT,
            ForwardCause::RequestBroken => StatusCode::BAD_REQUEST,
            ForwardCause::Resolve
            | ForwardCause::Connect
            | ForwardCause::Closed
            | ForwardCause::BadResponse => StatusCode::BAD_GATEWAY,
        }
    }
}

/// Whether the exchange failed because of the caller's own body.
fn request_fault(error: &hyper::Error) -> Option<ForwardCause> {
    let mut source = error.source();
    while let Some(error) = source {
        if let Some(fault) = error.downcast_ref::<RequestBodyError>() {
            return Some(ForwardCause::of_body(fault));
        }
        source = error.source();
    }
    None
}

impl fmt::Display for ForwardError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.cause {
            ForwardCause::Resolve => "the upstream's name has no address",
            ForwardCause::Connect => "the upstream cannot be connected to",
            ForwardCause::ConnectTimeout => "connecting to the upstream took too long",
            ForwardCause::ResponseTimeout => "the upstream did not answer in time",
            ForwardCause::Closed => "the upstream closed the connection",
            ForwardCause::BadResponse => "the upstream's answer is no HTTP",
            ForwardCause::RequestTooLarge => "the request's body is larger than allowed",
            ForwardCause::RequestTooSlow => "the request's body came too slowly",
            ForwardCause::RequestBroken => "the caller broke off the request's body",
        })
    }
}

impl Error for ForwardError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|source| source as &(dyn Error + 'static))
    }
}
