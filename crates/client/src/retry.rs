//! What may be sent again, how often and when.

use std::time::Duration;

use http::{Method, StatusCode};
use tokio::time::sleep;

use crate::{Ask, Heard, Pacer, Permit, TooLong};

/// Retries that may still be made: every request adds a part of one, if it is none itself.
#[derive(Clone, Debug)]
pub(crate) struct Budget {
    left: f64,
    ratio: f64,
}

/// What a client that has sent little may retry.
const AT_FIRST: f64 = 5.0;
/// What a client that has sent much may retry at once.
const MOST: f64 = 50.0;

impl Budget {
    pub(crate) fn new(ratio: f64) -> Budget {
        Budget { left: AT_FIRST, ratio: ratio.clamp(0.0, 1.0) }
    }

    pub(crate) fn earn(&mut self) {
        self.left = (self.left + self.ratio).min(MOST);
    }

    pub(crate) fn spend(&mut self) -> bool {
        let is_enough = self.left >= 1.0;
        if is_enough {
            self.left -= 1.0;
        }
        is_enough
    }

    /// A retry that was allowed was not made.
    pub(crate) fn keep(&mut self) {
        self.left = (self.left + 1.0).min(MOST);
    }
}

/// One call, which may be sent more than once.
#[derive(Debug)]
pub(crate) struct Call {
    pacer: Pacer,
    ask: Ask,
    sent: u32,
    /// How long it may still wait, in all.
    patience: Duration,
}

/// How long a server in trouble is left alone before the first retry, about; before each further one twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

impl Call {
    /// With leave to send it for the first time.
    pub(crate) async fn begin(pacer: Pacer, ask: Ask) -> Result<(Call, Permit), TooLong> {
        let patience = pacer.settings().max_wait;
        let began = pacer.now();
        let permit = pacer.acquire(ask).await?;
        let patience = patience.saturating_sub(pacer.now() - began);
        Ok((Call { pacer, ask, sent: 1, patience }, permit))
    }

    /// Leave to send what had leave before, but was not sent.
    pub(crate) async fn begin_anew(&mut self) -> Result<Permit, TooLong> {
        let began = self.pacer.now();
        let permit = self.pacer.acquire_again(self.ask, self.patience).await?;
        self.patience = self.patience.saturating_sub(self.pacer.now() - began);
        Ok(permit)
    }

    /// Leave of another server that it will come to, in the time that is left.
    #[cfg(feature = "reqwest")]
    pub(crate) async fn also(&mut self, pacer: &Pacer) -> Result<Permit, TooLong> {
        let began = self.pacer.now();
        let permit = pacer.acquire_again(self.ask, self.patience).await?;
        self.patience = self.patience.saturating_sub(self.pacer.now() - began);
        Ok(permit)
    }

    /// Whether it may be sent no more than it was.
    pub(crate) fn is_last(&self) -> bool {
        self.sent >= self.pacer.settings().max_attempts
    }

    /// Leave to send it once more, if that is safe and its wait not too long. It may still be given up before it is sent: until then
    /// the budget has its retry back.
    pub(crate) async fn again(
        &mut self,
        method: &Method,
        status: StatusCode,
        heard: &Heard,
    ) -> Option<(Permit, Retry)> {
        if self.is_last() || !is_safe(method, status, heard) {
            return None;
        }
        let retry = Retry::begin(&self.pacer)?;
        let began = self.pacer.now();
        let permit = self.wait(heard).await?;
        self.patience = self.patience.saturating_sub(self.pacer.now() - began);
        self.sent += 1;
        Some((permit, retry))
    }

    async fn wait(&self, heard: &Heard) -> Option<Permit> {
        let mut patience = self.patience;
        // A refusal is the pacer's to wait for. Trouble is none of its affairs: others may fare better.
        if !heard.is_refused {
            let doubled = 2u32.saturating_pow((self.sent - 1).min(16));
            let pause = FIRST_PAUSE.saturating_mul(doubled).mul_f64(0.5 + self.pacer.draw());
            let pause = pause.max(heard.said.retry_after.unwrap_or_default());
            patience = patience.checked_sub(pause)?;
            sleep(pause).await;
        }
        self.pacer.acquire_again(self.ask, patience).await.ok()
    }
}

/// A retry that the budget allows. Unless it is made it is given back, however the waiting ends.
#[derive(Debug)]
#[must_use = "it is given back unless it is made"]
pub(crate) struct Retry(Option<Pacer>);

impl Retry {
    fn begin(pacer: &Pacer) -> Option<Retry> {
        pacer.may_retry().then(|| Retry(Some(pacer.clone())))
    }

    /// It is being sent.
    pub(crate) fn made(mut self) {
        self.0 = None;
    }
}

impl Drop for Retry {
    fn drop(&mut self) {
        if let Some(pacer) = &self.0 {
            pacer.keep_retry();
        }
    }
}

/// Whether the same request may be sent again after this answer.
///
/// A request that a limit refused was not begun, so it may, whatever it does. One that met a server in trouble may have
/// been carried out: only what is idempotent may be repeated. What a server says about it goes first.
fn is_safe(method: &Method, status: StatusCode, heard: &Heard) -> bool {
    let Heard { is_refused, said } = heard;
    if said.should_retry == Some(false) {
        return false;
    }
    let is_asked_for = said.retry_after.is_some() || said.should_retry == Some(true);
    match status.as_u16() {
        // Most of what is forbidden stays so. A limit that says when it will not is a limit.
        403 => *is_refused && is_asked_for && method.is_idempotent(),
        429 => true,
        502..=504 => method.is_idempotent(),
        // gRPC's: what is exhausted may also be memory or a disk, in the midst of the work.
        _ => *is_refused && is_asked_for,
    }
}
