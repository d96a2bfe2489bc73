//! Where Redis is, as the file says it, for whoever connects.

use std::time::Duration;

use tollgate_policy::RedisUrl;
use tollgate_policy::shapes::{self, RedisMode};
use tollgate_redis::{Mode, Settings};

use crate::exit::Failure;

pub(crate) fn settings(redis: &shapes::Redis) -> Result<Settings, Failure> {
    let mode = match redis.mode {
        RedisMode::Single => Mode::Single,
        RedisMode::Cluster => Mode::Cluster,
        RedisMode::Sentinel => Mode::Sentinel,
    };
    let more = |settings: Settings, url: &RedisUrl| settings.also(url.as_str());
    let settings = Settings::new(redis.url.as_str());
    let settings = settings.and_then(|first| redis.urls.iter().try_fold(first, more));
    let settings = settings.map_err(|why| Failure::Failed(why.to_string()))?;
    let timeout = Duration::from_millis(redis.timeout_ms);
    Ok(settings.mode(mode).master(redis.master.as_str()).timeout(timeout))
}

/// A URL without user and password.
pub(crate) fn shown(url: &str) -> String {
    match (url.split_once("://"), url.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, server))) => format!("{scheme}://{server}"),
        _ => url.to_owned(),
    }
}
