//! A gateway as a whole: bound, running, stopped.

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;

use arc_swap::ArcSwap;
use tokio::sync::watch;

use crate::counts::Counts;
use crate::handler::Handler;
use crate::listen::listeners;
use crate::settings::Settings;
use crate::tls::TlsError;
use crate::worker::Start;

/// A gateway that has its address and does not serve yet.
#[derive(Debug)]
pub struct Gateway {
    settings: Settings,
    listeners: Vec<TcpListener>,
    address: SocketAddr,
}

impl Gateway {
    /// Binds the address. Fails where another program has it.
    pub fn bind(settings: Settings) -> io::Result<Gateway> {
        let (listeners, address) = listeners(settings.listen, settings.workers)?;
        Ok(Gateway { settings, listeners, address })
    }

    /// The address that was bound: with a port where the settings left it open.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Starts the workers. Each makes a handler of its own, in its own thread.
    pub fn start<H, M>(self, make_handler: M) -> io::Result<Running>
    where
        H: Handler,
        M: Fn() -> H + Send + Sync + 'static,
    {
        let make_handler = Arc::new(make_handler);
        let settings = Arc::new(ArcSwap::from_pointee(self.settings));
        let counts = Arc::new(Counts::default());
        let (stop, stopped) = watch::channel(false);
        let mut running = Running {
            address: self.address,
            counts: Arc::clone(&counts),
            settings: Arc::clone(&settings),
            stop: Stop(Arc::new(stop)),
            workers: Vec::new(),
        };
        for (number, listener) in self.listeners.into_iter().enumerate() {
            let start = Start {
                listener,
                settings: Arc::clone(&settings),
                counts: Arc::clone(&counts),
                stop: stopped.clone(),
            };
            let make_handler = Arc::clone(&make_handler);
            let thread = std::thread::Builder::new().name(format!("worker-{number}"));
            running.workers.push(thread.spawn(move || start.run(make_handler()))?);
        }
        Ok(running)
    }
}

/// A gateway that serves. Dropping it does not stop it.
#[derive(Debug)]
pub struct Running {
    address: SocketAddr,
    counts: Arc<Counts>,
    settings: Arc<ArcSwap<Settings>>,
    stop: Stop,
    workers: Vec<JoinHandle<io::Result<()>>>,
}

impl Running {
    /// The address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What happened so far.
    pub fn counts(&self) -> &Arc<Counts> {
        &self.counts
    }

    /// What changes its settings, for whoever learns of others.
    pub fn tuning(&self) -> Tuning {
        Tuning(Arc::clone(&self.settings))
    }

    /// What stops it, for whoever learns that it should.
    pub fn stop(&self) -> Stop {
        self.stop.clone()
    }

    /// Waits until every worker has ended. Blocks the thread.
    pub fn wait(self) -> io::Result<()> {
        let mut result = Ok(());
        for worker in self.workers {
            let ended =
                worker.join().unwrap_or_else(|_| Err(io::Error::other("a worker panicked")));
            result = result.and(ended);
        }
        result
    }
}

/// Changes the settings of a gateway that serves.
#[derive(Clone, Debug)]
pub struct Tuning(Arc<ArcSwap<Settings>>);

impl Tuning {
    /// Other settings from now on: caps, proxies, certificates, how to drain. Workers take them over within a tenth of a
    /// second: certificates for new connections, all else for new requests. Address and number of workers stay what they are.
    pub fn change(&self, settings: Settings) {
        self.0.store(Arc::new(settings));
    }

    /// Reads the files of the certificates again, if there are any. New connections are shown what they hold now.
    ///
    /// # Errors
    ///
    /// If they are faulty: then new connections are shown what they held before.
    pub fn renew_certificates(&self) -> Result<(), TlsError> {
        self.0.load().certificates.as_ref().map_or(Ok(()), |certificates| certificates.reload())
    }
}

/// Stops a gateway: it goes on accepting for the drain delay, finishes what is in flight within the drain timeout, and
/// ends.
#[derive(Clone)]
pub struct Stop(Arc<watch::Sender<bool>>);

impl Stop {
    /// Begins to stop, if that was not begun already.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }
}

impl fmt::Debug for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Stop").field(&*self.0.borrow()).finish()
    }
}
