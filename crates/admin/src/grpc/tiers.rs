//! The three tiers of a configuration, which whoever changes them wants to see in force.

use tollgate_policy::shapes::{DefaultLimit, Defaults, File, RateLimit, Window};

use super::v1::{Backpressure, Limit, Tiers};

impl From<&File> for Tiers {
    fn from(settings: &File) -> Tiers {
        let of = |limit: &DefaultLimit, built_in: fn() -> RateLimit| match limit {
            DefaultLimit::BuiltIn => Some(Limit::from(&built_in())),
            DefaultLimit::Off => None,
            DefaultLimit::Given(given) => Some(Limit::from(&**given)),
        };
        let backpressure = settings.upstreams.iter().map(|(name, upstream)| Backpressure {
            upstream: name.to_string(),
            threshold: upstream.backpressure.threshold,
        });
        Tiers {
            backpressure: backpressure.collect(),
            client: of(&settings.defaults.client, Defaults::built_in_client),
            tenant: of(&settings.defaults.tenant, Defaults::built_in_tenant),
        }
    }
}

impl From<&RateLimit> for Limit {
    fn from(limit: &RateLimit) -> Limit {
        let rate = limit.sustained.rate;
        Limit {
            rate,
            window: name_of(limit.sustained.window).to_owned(),
            capacity: limit.terms.burst.as_ref().map_or(rate, |burst| burst.capacity),
        }
    }
}

fn name_of(window: Window) -> &'static str {
    match window {
        Window::Second => "second",
        Window::Minute => "minute",
        Window::Hour => "hour",
        Window::Day => "day",
    }
}
