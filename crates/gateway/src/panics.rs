//! A panic ends the task it happened in, is counted and told, and nothing else.

use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

use crate::worker::Worker;

pin_project! {
    /// A future that ends where it would have panicked.
    pub(crate) struct Guarded<F> {
        #[pin]
        future: F,
        worker: Rc<Worker>,
    }
}

impl<F> Guarded<F> {
    pub(crate) fn new(worker: &Rc<Worker>, future: F) -> Guarded<F> {
        Guarded { future, worker: Rc::clone(worker) }
    }
}

impl<F: Future<Output = ()>> Future for Guarded<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.project();
        // The future is not polled again after a panic, so what it left half done is only dropped.
        match catch_unwind(AssertUnwindSafe(|| this.future.poll(cx))) {
            Ok(polled) => polled,
            Err(panic) => {
                this.worker.count(|counts| &counts.panics);
                tracing::error!(
                    panic = message(&*panic),
                    "a request panicked; its connection ends"
                );
                Poll::Ready(())
            }
        }
    }
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}
