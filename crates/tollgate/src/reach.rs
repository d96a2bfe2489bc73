//! Where Redis is, as the file says it, for whoever connects.

use std::time::Duration;

use tollgate_policy::shapes::{self, RedisMode};
use tollgate_redis::{Mode, Settings};

use crate::exit::Failure;

pub(crate) fn settings(redis: &shapes::Redis) -> Result<Settings, Failure> {
    let mode = match redis.mode {
        RedisMode::Single => Mode::Single,
        RedisMode::Cluster => Mode::Cluster,
        RedisMode::Sentinel => Mode::Sentinel,
    };
    let settings = Settings::new(redis.url.as_str());
    let settings = settings.map_err(|why| Failure::Failed(why.to_string()))?;
    Ok(settings.mode(mode).timeout(Duration::from_millis(redis.timeout_ms)))
}
