//! Bodies made of flags, for the common case; everything else is written into a file.

use std::str::FromStr;

use serde_json::{Map, Value, json};

use super::shown;
use super::span::Span;
use crate::exit::Failure;

/// So much a window: `100`, `60/minute`, `10000/month`. Which windows there are is the API's to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Per {
    amount: u64,
    window: Option<String>,
}

impl FromStr for Per {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Per, &'static str> {
        let (amount, window) = match text.split_once('/') {
            Some((_, "")) => return Err("write a window after the `/`, such as `minute`"),
            Some((amount, window)) => (amount, Some(window.to_owned())),
            None => (text, None),
        };
        let amount = amount.parse().map_err(|_| "write a number, as in `100` or `60/minute`")?;
        Ok(Per { amount, window })
    }
}

/// A limit.
#[derive(Debug, clap::Args)]
pub(crate) struct LimitFlags {
    /// Tokens a window: 100, 60/minute, 1000/day; a second if no window is said
    #[arg(long, value_name = "N[/WINDOW]")]
    rate: Option<Per>,
    /// Tokens at once [default: the rate]
    #[arg(long, value_name = "N")]
    burst: Option<u64>,
    /// Whose requests share a counter: global, tenant, user, ip or route
    #[arg(long)]
    scope: Option<String>,
}

impl LimitFlags {
    pub(crate) fn is_empty(&self) -> bool {
        let LimitFlags { rate, burst, scope } = self;
        rate.is_none() && burst.is_none() && scope.is_none()
    }

    /// Writes them over what a body says.
    pub(crate) fn write(&self, body: &mut Value) {
        if let Some(Per { amount, window }) = &self.rate {
            put(body, &["rate_limit", "sustained", "rate"], Some(json!(amount)));
            put(body, &["rate_limit", "sustained", "window"], window.as_ref().map(|w| json!(w)));
        }
        put(body, &["rate_limit", "burst", "capacity"], self.burst.map(|n| json!(n)));
        put(body, &["rate_limit", "scope"], self.scope.as_ref().map(|scope| json!(scope)));
    }
}

/// A quota.
#[derive(Debug, clap::Args)]
pub(crate) struct QuotaFlags {
    /// The balance of a calendar period: 10000/month; day, week, month or year
    #[arg(long, value_name = "N/PERIOD")]
    quota: Option<Per>,
    /// Where its days begin [default: as it is, or UTC]
    #[arg(long, value_name = "ZONE", requires = "quota")]
    time_zone: Option<String>,
}

impl QuotaFlags {
    pub(crate) fn is_empty(&self) -> bool {
        self.quota.is_none()
    }

    /// Writes it over the quota that a body has, or the only one of several with its window: what is not said of it stays, for
    /// another zone, scope or unit is another balance, of which nothing is used.
    pub(crate) fn write(&self, body: &mut Value) -> Result<(), Failure> {
        let Some(Per { amount, window }) = &self.quota else { return Ok(()) };
        let quota = match body.get_mut("quota") {
            Some(one @ Value::Object(_)) => one,
            Some(Value::Array(all)) if !all.is_empty() => meant(all, window.as_deref())?,
            _ => {
                put(body, &["quota"], Some(json!({})));
                &mut body["quota"]
            }
        };
        put(quota, &["limit"], Some(json!(amount)));
        put(quota, &["window"], window.as_ref().map(|window| json!(window)));
        put(quota, &["time_zone"], self.time_zone.as_ref().map(|zone| json!(zone)));
        Ok(())
    }
}

/// Which of its quotas a flag means.
fn meant<'q>(all: &'q mut [Value], window: Option<&str>) -> Result<&'q mut Value, Failure> {
    if let [one] = all {
        return Ok(one);
    }
    let told: Vec<String> = all.iter().map(shown::quota).collect();
    let mut fit = all.iter_mut().filter(|one| window.is_some_and(|word| one["window"] == word));
    match (fit.next(), fit.next()) {
        (Some(one), None) => Ok(one),
        _ => Err(Failure::Usage(format!(
            "it has several quotas ({}), and --quota means none of them alone: write all of it into a file and say \
             `replace --file FILE`",
            told.join(", ")
        ))),
    }
}

/// When something ends.
#[derive(Debug, clap::Args)]
pub(crate) struct EndFlags {
    /// When it ends, as 2027-01-31T00:00:00Z
    #[arg(long, value_name = "MOMENT")]
    expires_at: Option<String>,
    /// How long it works: 90s, 15m, 24h, 30d, 2w
    #[arg(long, value_name = "SPAN", conflicts_with = "expires_at")]
    expires_in: Option<Span>,
}

impl EndFlags {
    pub(crate) fn is_empty(&self) -> bool {
        self.expires_at.is_none() && self.expires_in.is_none()
    }

    pub(crate) fn write(&self, body: &mut Value) -> Result<(), Failure> {
        let end = match self.expires_in {
            Some(span) => Some(span.ahead().ok_or_else(|| {
                Failure::Usage("--expires-in leads beyond every calendar: leave it out".to_owned())
            })?),
            None => self.expires_at.clone(),
        };
        put(body, &["expires_at"], end.map(|end| json!(end)));
        Ok(())
    }
}

/// Writes a value at a place, and the objects above it; does nothing without a value.
pub(crate) fn put(body: &mut Value, path: &[&str], value: Option<Value>) {
    let (Some(value), Some((last, above))) = (value, path.split_last()) else { return };
    let mut place = object(body);
    for name in above {
        place = object(place.entry(*name).or_insert(Value::Null));
    }
    place.insert((*last).to_owned(), value);
}

/// The object that a value is, or now becomes.
fn object(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(map) => map,
        _ => unreachable!("it was just made one"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_change_what_they_name_and_nothing_else() {
        let mut body = json!({ "id": "acme", "rate_limit": { "sustained": { "rate": 5, "window": "minute" }, "cost": 1 } });
        let flags = LimitFlags { rate: Some("7".parse().unwrap()), burst: Some(9), scope: None };
        flags.write(&mut body);
        assert_eq!(
            body,
            json!({ "id": "acme", "rate_limit": {
                "sustained": { "rate": 7, "window": "minute" }, "cost": 1, "burst": { "capacity": 9 },
            }})
        );
    }

    /// It was written as a new one: in another time zone, so that what was used of it was no longer, and without the others.
    #[test]
    fn a_quota_keeps_what_flags_do_not_say_and_so_do_all_others() {
        let month = json!({ "limit": 9, "window": "month", "time_zone": "Europe/Vienna", "unit": "tokens" });
        let users = json!({ "limit": 2, "window": "day", "scope": "user" });
        let tenants = json!({ "limit": 8, "window": "day", "scope": "tenant" });
        let with = |quota: &Value, said: &Value| {
            let mut quota = quota.clone();
            said.as_object()
                .unwrap()
                .iter()
                .for_each(|(name, value)| put(&mut quota, &[name], Some(value.clone())));
            quota
        };
        let written = |quota: Value, said: &str, zone: Option<&str>| {
            let flags = QuotaFlags { quota: said.parse().ok(), time_zone: zone.map(str::to_owned) };
            let mut body = json!({ "name": "big", "quota": quota });
            flags.write(&mut body).map(|()| body["quota"].clone()).map_err(|why| why.to_string())
        };
        let five = with(&month, &json!({ "limit": 5 }));
        assert_eq!(written(month.clone(), "5/month", None), Ok(five.clone()));
        assert_eq!(written(month.clone(), "5", None), Ok(five.clone()));
        assert_eq!(written(json!([month]), "5/month", None), Ok(json!([five])));
        let yearly = json!({ "limit": 5, "window": "year", "time_zone": "UTC" });
        assert_eq!(written(month.clone(), "5/year", Some("UTC")), Ok(with(&month, &yearly)));
        assert_eq!(written(json!([month, users]), "5/month", None), Ok(json!([five, users])));

        for (quotas, said) in [
            (json!([month, users]), "5"),
            (json!([month, users]), "5/year"),
            (json!([month, users, tenants]), "5/day"),
        ] {
            let why = written(quotas.clone(), said, None).unwrap_err();
            assert!(why.contains("9/month, 2/day") && why.contains("--file"), "{why}");
        }
        for none in [Value::Null, json!([])] {
            assert_eq!(
                written(none, "5/month", None),
                Ok(json!({ "limit": 5, "window": "month" }))
            );
        }
    }

    #[test]
    fn amounts_have_a_window_or_none() {
        assert_eq!("5/day".parse(), Ok(Per { amount: 5, window: Some("day".into()) }));
        assert_eq!("5".parse(), Ok(Per { amount: 5, window: None }));
        for text in ["", "x", "5/", "/day", "-5", "1.5"] {
            assert!(text.parse::<Per>().is_err(), "{text}");
        }
    }
}
