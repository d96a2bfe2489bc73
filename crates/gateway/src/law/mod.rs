//! The law of one request, in one function.
//!
//! ```text
//! backpressure → authenticate → client → tenant → each ancestor and pool → route, upstream → quotas → forward
//! ```
//! Everything a request needs was made before it came: the [`Plane`] holds the policy in force, its upstreams and
//! what is told of them. A new plane is swapped in whole; a request keeps to the one it began with.

mod answer;
mod authenticate;
mod identity;
mod keys;
mod metrics;
mod plane;
mod reading;
mod record;
mod request_id;
mod shared;
mod shown;

use std::cell::{Cell, OnceCell};
use std::sync::Arc;

use http::{HeaderValue, Response, Uri};
use tollgate_engine::Clock;
use tollgate_gate::{Gate, Lines, Passage};
use tollgate_policy::compile::Work;
use tollgate_wire::{HeadLines, degraded_by, is_grpc, names};

pub use keys::{FileKey, FileKeys, FoundKey, Keys};
pub use metrics::Metrics;
pub use plane::{Plane, PlaneError, ReadyPlane};
pub use record::{Cause, Outcome, Record, Recorder, Source};
pub use request_id::RequestId;
pub use shared::Shared;

use crate::body::Body;
use crate::connection::Connection;
use crate::fault::Fault;
use crate::forward::Forwarder;
use crate::handler::Handler;
use crate::received::Received;
use answer::Answer;
use authenticate::Denied;
use metrics::WorkerMetrics;
use reading::Reading;
use request_id::RequestIds;

/// Decides the requests of one worker.
#[derive(Debug)]
pub struct Law<K, R> {
    shared: Arc<Shared<K>>,
    recorder: R,
    metrics: WorkerMetrics,
    request_ids: RequestIds,
    has_warned: Cell<bool>,
}

impl<K: Keys, R: Recorder> Law<K, R> {
    /// One worker's handler. What becomes of each request is told to `recorder`.
    pub fn new(shared: &Arc<Shared<K>>, recorder: R) -> Law<K, R> {
        Law {
            metrics: shared.metrics.worker(),
            shared: Arc::clone(shared),
            recorder,
            request_ids: RequestIds::new(),
            has_warned: Cell::new(false),
        }
    }

    /// Somebody whom nobody trusts says for whom it calls: once, because it may be a proxy that was forgotten.
    fn warn_of_strangers(&self, read: &Reading, connection: &Connection) {
        if read.is_forwarded && !self.has_warned.get() && !connection.is_from_proxy() {
            self.has_warned.set(true);
            tracing::warn!(
                peer = %connection.peer().ip(),
                "X-Forwarded-For comes from somebody who is not in `server.trusted_proxies` and is not believed"
            );
        }
    }

    /// The law. It reads from top to bottom; whoever is turned away leaves where it is.
    async fn decide(
        &self,
        request: &mut Received,
        (connection, forwarder): (&Connection, &Forwarder),
        plane: &Plane,
        (held, unseen, record): (&OnceCell<K::Found>, &Cell<bool>, &mut Record),
    ) -> Response<Body> {
        let (gate, in_force) = (&self.shared.gate, plane.in_force());

        let read = match Reading::of(request, plane, connection) {
            Ok(read) => read,
            Err((status, why)) => {
                record.address = Some(reading::address(request, plane, connection));
                let answer = Answer::new(record.request_id, is_grpc(request.headers()));
                return answer.fault(status, &why);
            }
        };
        let (answer, route) = (Answer::new(record.request_id, read.is_grpc), read.route(plane));
        record.route = Some(route.number());
        record.address = Some(read.address);

        let upstream = plane.upstream(route.upstream());
        if !route.is_free()
            && let Err(wait) = upstream.backpressure().check()
        {
            self.metrics.overloaded();
            record.cause = Some(Cause::Overloaded);
            return answer.overloaded(plane.upstream_source(route.upstream()), wait);
        }

        self.warn_of_strangers(&read, connection);
        let asked = (read.key, held, record.began);
        let caller = match authenticate::authenticate(self, plane, asked, read.address) {
            Ok(caller) => caller,
            Err(Denied::Unknown) => {
                record.cause = Some(Cause::Unauthorized);
                return answer.unauthorized();
            }
            Err(Denied::TooOften(wait)) => {
                record.cause = Some(Cause::TooManyFailures);
                return answer.too_many_failures(plane, wait, record.began);
            }
        };
        record.know(&caller);

        let asked = self.metrics.is_sampled().then(|| gate.limiter().clock().now());
        let mut passage = Passage::undecided();
        let work = (&caller, Work::on(route));
        gate.pass_at(&mut passage, in_force, work, record.began).await;
        if let Some(asked) = asked {
            self.metrics.took(gate.limiter().clock().now() - asked);
        }
        let tier = plane.tier(caller.client().plan());
        self.metrics.decided((tier, plane.endpoint(route.number())), &passage);
        if let Some(what) = passage.unavailable() {
            record.cause = Some(Cause::Uncountable);
            return answer.unavailable(what);
        }
        record.decide(&passage, route.cost());
        if !passage.is_admitted() {
            return answer.refused(&passage);
        }

        unseen.set(true);
        let charged = Charged { gate, passage: &mut passage, unseen };
        let degraded = charged.passage.degraded();
        let upstream = match degraded {
            Some((_, Some(number))) => {
                // Another than the one that was asked for, so it has not been looked at yet.
                if let Err(wait) = plane.upstream(number).backpressure().check() {
                    record.cause = Some(Cause::Overloaded);
                    self.metrics.overloaded();
                    return answer.overloaded(plane.upstream_source(number), wait);
                }
                plane.upstream(number)
            }
            _ => upstream,
        };
        if let Some(path) = read.respelled(request) {
            let uri = respell(request.uri(), &path);
            *request.uri_mut() = uri;
        }
        let hidden = authenticate::strip_keys(request, plane, route);
        let mut told = identity::tell(request, plane, (&caller, held.get()), record);
        let mark = degraded.and_then(|(name, _)| degraded_by(name));
        if let Some(mark) = &mark {
            told.set(&names::X_RATELIMIT_DEGRADED, mark);
        }

        let sent = gate.limiter().clock().now();
        let (said, noted) = ((told, hidden), (connection, unseen));
        let forwarded = forwarder.forward_noting(upstream, request, said, noted);
        let mut response = match forwarded.await {
            Ok(response) => response,
            Err(error) => {
                self.metrics.failed(error.cause());
                let mut response = answer.fault(error.status(), &capitalised(&error.to_string()));
                unseen.set(error.was_never_sent());
                if !unseen.get() {
                    let lines = limit_lines(HeadLines::default(), charged.passage, mark.as_ref());
                    response.body_mut().set_lines(lines);
                }
                return response;
            }
        };
        self.metrics.answered(gate.limiter().clock().now() - sent);
        names::strip(response.headers_mut());
        let mut lines = HeadLines::with_capacity(USUAL_LINES);
        lines.set_text(&names::X_REQUEST_ID, record.request_id.as_str());
        response.body_mut().set_lines(limit_lines(lines, charged.passage, mark.as_ref()));
        response
    }
}

impl<K: Keys, R: Recorder> Handler for Law<K, R> {
    async fn handle(
        &self,
        request: &mut Received,
        connection: &Connection,
        forwarder: &Forwarder,
    ) -> Response<Body> {
        let began = self.shared.gate.limiter().clock().now();
        let plane = self.shared.plane.load();
        let wants_details = self.recorder.wants_details();
        let record = Record::new(self.request_ids.next(), began, request, wants_details);
        let (held, unseen) = (OnceCell::new(), Cell::new(false));
        let mut told = Told { law: self, plane: &plane, held, unseen, record };
        let of = (&told.held, &told.unseen, &mut told.record);
        let response = self.decide(request, (connection, forwarder), &plane, of).await;
        told.record.status = response.status();
        response
    }

    fn tick(&self) {
        self.recorder.hand_over();
    }

    fn turn_away(
        &self,
        request: &Received,
        connection: &Connection,
        fault: Fault,
    ) -> Response<Body> {
        let now = || self.shared.gate.limiter().clock().now();
        let (id, plane) = (self.request_ids.next(), self.shared.plane.load());
        let mut record = Record::new(id, now(), request, self.recorder.wants_details());
        record.address = Some(reading::address(request, &plane, connection));
        let response = Answer::plain(id).fault(fault.status(), &capitalised(fault.detail()));
        record.status = response.status();
        self.recorder.record::<K::Found>(&record, (None, &plane), now);
        response
    }

    fn refuse(&self, fault: Fault) -> Response<Body> {
        let id = self.request_ids.next();
        Answer::plain(id).fault(fault.status(), &capitalised(fault.detail()))
    }
}

/// Room for the headers that a response gets, in bytes.
const USUAL_LINES: usize = 640;

/// Adds what a response tells of the limits that its request was charged to.
fn limit_lines(
    mut lines: HeadLines,
    passage: &Passage<'_>,
    mark: Option<&HeaderValue>,
) -> HeadLines {
    if passage.shows_headers() && !passage.is_empty() {
        Lines::of(passage).report().write_lines(&mut lines);
    }
    if let Some(mark) = mark {
        lines.set(&names::X_RATELIMIT_DEGRADED, mark);
    }
    lines
}

/// A request under way. Its end is told however it ends: answered, or dropped because its caller hung up.
struct Told<'l, K: Keys, R: Recorder> {
    law: &'l Law<K, R>,
    plane: &'l Plane,
    /// Its key, once that is known.
    held: OnceCell<K::Found>,
    /// It was charged, and no upstream can have seen it.
    unseen: Cell<bool>,
    record: Record,
}

/// What a request was charged. It is given back if no upstream can have seen the request, however that ends: it could not be
/// sent, or its caller hung up while somebody was still being called.
struct Charged<'l, 'f> {
    gate: &'l Gate,
    passage: &'l mut Passage<'f>,
    unseen: &'l Cell<bool>,
}

impl Drop for Charged<'_, '_> {
    fn drop(&mut self) {
        if self.unseen.get() {
            self.gate.give_back(self.passage);
        }
    }
}

impl<K: Keys, R: Recorder> Drop for Told<'_, K, R> {
    fn drop(&mut self) {
        if self.unseen.get() {
            self.record.forgive();
        }
        if let (Some(route), tokens @ 1..) = (self.record.route, self.record.spent()) {
            let tier = self.plane.tier(self.record.plan);
            self.law.metrics.spent((tier, self.plane.endpoint(route)), tokens);
        }
        let now = || self.law.shared.gate.limiter().clock().now();
        self.law.recorder.record(&self.record, (self.held.get(), self.plane), now);
    }
}

/// The same target with the one spelling of its path, which is what was matched.
fn respell(uri: &Uri, path: &str) -> Uri {
    let query = uri.query().map_or_else(String::new, |query| format!("?{query}"));
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = format!("{path}{query}").parse().ok();
    Uri::from_parts(parts).unwrap_or_else(|_| uri.clone())
}

/// A sentence of a message that stands alone elsewhere.
fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|first| first.to_ascii_uppercase());
    first.into_iter().chain(letters).chain(['.']).collect()
}
