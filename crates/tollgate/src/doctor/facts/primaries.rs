//! Who else there is in a cluster.

use redis::{Value, cmd};
use tollgate_redis::Plain;

use super::{WITHIN, asked, words};

/// The primaries of a cluster, as this server knows them; perhaps itself among them.
pub(super) async fn primaries(plain: &Plain) -> Vec<(String, u16)> {
    if let Ok(nodes) = asked(plain, cmd("CLUSTER").arg("NODES")).await {
        return nodes.lines().filter_map(of_node).collect();
    }
    // A user who has only what counters need may ask for this alone. Who has no slots is not in it, and counts nothing.
    let slots = plain.ask(cmd("CLUSTER").arg("SLOTS").clone(), WITHIN).await;
    let mut all = match &slots {
        Ok(Value::Array(ranges)) => ranges.iter().filter_map(of_range).collect(),
        _ => Vec::new(),
    };
    all.sort_unstable();
    all.dedup();
    all
}

/// A line of `CLUSTER NODES`: id, `host:port@bus,name`, flags, and more.
fn of_node(line: &str) -> Option<(String, u16)> {
    let mut words = line.split(' ');
    let address = words.nth(1)?;
    let flags = words.next()?;
    if !flags.contains("master") || flags.contains("noaddr") || flags.contains("myself") {
        return None;
    }
    let address = address.split(['@', ',']).next()?;
    let (host, port) = address.rsplit_once(':')?;
    (!host.is_empty()).then_some((host.to_owned(), port.parse().ok()?))
}

/// A range of `CLUSTER SLOTS`: its first and last slot, then host, port and id of its primary and of each replica.
fn of_range(range: &Value) -> Option<(String, u16)> {
    let Value::Array(range) = range else { return None };
    let Value::Array(primary) = range.get(2)? else { return None };
    let host = words(primary.first()?).pop().filter(|host| !host.is_empty())?;
    let port = words(primary.get(1)?).pop()?;
    Some((host, port.parse().ok()?))
}
