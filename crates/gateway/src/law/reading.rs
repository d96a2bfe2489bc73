//! What the law reads of a request's head.
//!
//! All of it follows from the head's bytes, from whom the connection is with, and from the plane in force: nothing of it is looked up that
//! may change meanwhile. So it is noted, and holds for the same head when that comes again. Whether the key is good is not a
//! part of it.

use std::borrow::Cow;
use std::net::IpAddr;

use http::{Request, StatusCode};
use tollgate_policy::compile::RouteInForce;
use tollgate_policy::routes::normalise;
use tollgate_wire::is_grpc;

use super::authenticate::{Key, key_of};
use super::plane::{Plane, PlaneNumber};
use super::{identity, shown::Shown};
use crate::caller::caller_address;
use crate::connection::Connection;
use crate::received::Received;

/// What a head says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    plane: PlaneNumber,
    route: usize,
    pub(crate) address: IpAddr,
    pub(crate) key: Key,
    pub(crate) is_grpc: bool,
    /// Its path has another spelling than the one that was matched.
    is_respelled: bool,
    /// It says for whom it was forwarded.
    pub(crate) is_forwarded: bool,
}

/// Why nothing can be read.
pub(crate) type Unread = (StatusCode, Cow<'static, str>);

impl Reading {
    /// What is noted of a head, or what it says.
    pub(crate) fn of(
        request: &mut Received,
        plane: &Plane,
        connection: &Connection,
    ) -> Result<Reading, Unread> {
        if let Some(noted) = request.noted::<Reading>()
            && noted.plane == plane.number()
        {
            return Ok(noted);
        }
        let read = Reading::read(request, plane, connection)?;
        request.note(read);
        Ok(read)
    }

    fn read<B>(
        request: &Request<B>,
        plane: &Plane,
        connection: &Connection,
    ) -> Result<Reading, Unread> {
        let path =
            spelled(request).map_err(|bad| (StatusCode::BAD_REQUEST, bad.to_string().into()))?;
        let shown = Shown::of(request.headers(), plane.key_header());
        let host = identity::host(request.uri(), shown.host);
        let route = plane.in_force().policy().route(host, request.method().as_str(), &path);
        let route = route.ok_or((StatusCode::NOT_FOUND, "No route is for this request.".into()))?;
        Ok(Reading {
            plane: plane.number(),
            route: route.number(),
            address: caller_address(connection.peer().ip(), &shown.forwarded, plane.proxies()),
            key: key_of(&shown, plane, route),
            is_grpc: is_grpc(request.headers()),
            is_respelled: matches!(path, Cow::Owned(_)),
            is_forwarded: !shown.forwarded.is_empty(),
        })
    }

    pub(crate) fn route<'p>(&self, plane: &'p Plane) -> &'p RouteInForce {
        &plane.in_force().policy().routes()[self.route]
    }

    /// The one spelling of the path, if it came in another.
    pub(crate) fn respelled<B>(&self, request: &Request<B>) -> Option<String> {
        let path = self.is_respelled.then(|| spelled(request).ok()).flatten()?;
        Some(path.into_owned())
    }
}

/// Who sent a request of which nothing else is read.
pub(crate) fn address<B>(request: &Request<B>, plane: &Plane, connection: &Connection) -> IpAddr {
    let shown = Shown::of(request.headers(), plane.key_header());
    caller_address(connection.peer().ip(), &shown.forwarded, plane.proxies())
}

fn spelled<B>(request: &Request<B>) -> Result<Cow<'_, str>, tollgate_policy::routes::BadPath> {
    match request.uri().path() {
        // Of the server as a whole, so of whoever has its root.
        "*" => Ok(Cow::Borrowed("/")),
        path => normalise(path),
    }
}
