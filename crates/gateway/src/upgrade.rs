//! A caller's connection that is to become something else.

use std::sync::Arc;

use http::Request;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::stream::Stream;

/// The caller's end of a connection that may switch protocols: filled when 101 was written.
#[derive(Debug)]
pub(crate) struct Switch(oneshot::Sender<Stream>);

/// Where a request's connection will be found.
#[derive(Clone, Debug)]
struct Offered(Arc<Mutex<Option<oneshot::Receiver<Stream>>>>);

impl Switch {
    /// Offers the connection to whoever forwards the request.
    pub(crate) fn offer<B>(request: &mut Request<B>) -> Switch {
        let (sender, receiver) = oneshot::channel();
        request.extensions_mut().insert(Offered(Arc::new(Mutex::new(Some(receiver)))));
        Switch(sender)
    }

    /// What was offered with a request; `None` if nothing was, or it is taken.
    pub(crate) fn accept<B>(request: &mut Request<B>) -> Option<oneshot::Receiver<Stream>> {
        let offered = request.extensions_mut().remove::<Offered>()?;
        offered.0.lock().take()
    }

    /// Hands the connection over.
    pub(crate) fn take(self, stream: Option<Stream>) {
        if let Some(stream) = stream {
            // Who asked for it may have gone, and the connection goes with it.
            drop(self.0.send(stream));
        }
    }
}
