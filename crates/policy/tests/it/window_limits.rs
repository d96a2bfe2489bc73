//! Limits that count by a window, under rates of other windows from above.

use tollgate_core::{Rate, Window};
use tollgate_policy::compile::{Client, Policy, Work};

/// What a file of `part` with `above` and `acme` below it with `own` amounts to for acme: the algorithm, its rate, and what it
/// lets in at once; or what is wrong with it.
fn in_force(above: &str, own: &str) -> Result<String, Vec<String>> {
    let text = format!(
        "tenants:\n  - {{ id: part, rate_limit: {{ {above} }} }}\n  - {{ id: acme, parent: part, rate_limit: {{ {own} }} }}\n"
    );
    of_acme(&text)
}

fn of_acme(text: &str) -> Result<String, Vec<String>> {
    let policy = Policy::of("t.yaml", text.as_bytes()).map_err(|faults| {
        let records = faults.diagnostics.records();
        let told = |r: tollgate_policy::Record<'_>| {
            format!("{}:{}: {} / {}", r.line, r.column, r.message, r.help.unwrap_or(""))
        };
        records.map(told).collect::<Vec<_>>()
    })?;
    let acme = policy.tenants().number("acme").unwrap();
    let (_, placed) = policy.chain(Client::of(&policy, acme), Work::default()).next().unwrap();
    let effective = policy.tenants().all()[acme].effective().unwrap();
    let limit = placed.limit();
    assert_eq!(limit.rate(), Some(effective.rate), "what is told is what counts");
    Ok(format!("{} {} {}", limit.kind().name(), effective.rate, limit.capacity()))
}

fn rate(rate: u64, window: &str) -> String {
    format!("sustained: {{ rate: {rate}, window: {window} }}")
}

/// the rate above, the own one, what counts
#[test]
fn a_longer_window_above_never_lets_in_more_than_the_own_one() {
    let rows = [
        // 5000 in one second would be fifty times the own limit.
        ((5000, "minute"), (100, "second"), "83/second 83"),
        ((60, "minute"), (2, "second"), "1/second 1"),
        ((100, "hour"), (50, "minute"), "1/minute 1"),
        ((1_000_000, "day"), (1000, "minute"), "694/minute 694"),
        // No more at once than the own window lets in, so the rate stays as it is written.
        ((100, "minute"), (100, "second"), "100/minute 100"),
        ((50, "day"), (100, "second"), "50/day 50"),
        // The own rate is the lower one.
        ((6001, "minute"), (100, "second"), "100/second 100"),
        ((6000, "minute"), (100, "second"), "100/second 100"),
        // Equal windows, and a shorter one above.
        ((50, "second"), (100, "second"), "50/second 50"),
        ((200, "minute"), (100, "minute"), "100/minute 100"),
        ((1, "second"), (100, "minute"), "1/second 1"),
        ((100, "second"), (5000, "minute"), "5000/minute 5000"),
    ];
    for algorithm in ["fixed_window", "sliding_window", "sliding_window_log"] {
        for sharing in ["inherit", "enforce"] {
            for ((above, above_window), (own, own_window), expected) in rows {
                let above = format!("sharing: {sharing}, {}", rate(above, above_window));
                let own = format!("algorithm: {algorithm}, {}", rate(own, own_window));
                let expected = format!("{algorithm} {expected}");
                assert_eq!(in_force(&above, &own), Ok(expected), "{above} over {own}");
            }
        }
    }
}

/// Neither more at once than the own window lets in, nor more in the long run than either rate.
#[test]
fn whatever_counts_is_within_both() {
    const RATES: [u64; 6] = [1, 24, 61, 100, 5000, 90_000];
    let all = || RATES.into_iter().flat_map(|n| Window::ALL.map(|window| Rate::new(n, window)));
    let written = |it: Rate| rate(it.tokens(), &it.window().to_string());
    for (above, own) in all().flat_map(|above| all().map(move |own| (above, own))) {
        let text = format!(
            "tenants:\n  - {{ id: part, rate_limit: {{ sharing: inherit, {} }} }}\n  - {{ id: acme, parent: part, rate_limit: {{ algorithm: fixed_window, {} }} }}\n",
            written(above),
            written(own)
        );
        let in_own = above.tokens() * own.window().secs() / above.window().secs();
        let is_less_than_one = in_own == 0 && above.tokens() > own.tokens();
        match Policy::of("t.yaml", text.as_bytes()) {
            Err(faults) => assert!(is_less_than_one, "{above} over {own}: {}", faults.diagnostics),
            Ok(policy) => {
                let found = policy.tenants().get("acme").unwrap().effective().unwrap().rate;
                assert!(!is_less_than_one, "{above} over {own}: {found}");
                let is_within = found.compare(above).is_le() && found.compare(own).is_le();
                assert!(is_within && found.tokens() <= own.tokens(), "{above} over {own}: {found}");
            }
        }
    }
}

#[test]
fn what_is_less_than_one_in_the_own_window_is_refused() {
    let own = |algorithm: &str| format!("algorithm: {algorithm}, {}", rate(100, "second"));
    for sharing in ["inherit", "enforce"] {
        let above = format!("sharing: {sharing}, {}", rate(200, "day"));
        let expected = "3:43: tenant `acme` counts by a fixed_window of a second, in which the 200/day of `part` are \
                        less than 1 / write its rate with `window: day`, or choose `token_bucket`, whose burst keeps \
                        to both";
        assert_eq!(in_force(&above, &own("fixed_window")), Err(vec![expected.to_owned()]));
        assert!(in_force(&above, &own("sliding_window")).is_err());
        // What the message says would be right is.
        let a_day = format!("algorithm: fixed_window, {}", rate(200, "day"));
        assert_eq!(in_force(&above, &a_day), Ok("fixed_window 200/day 200".to_owned()));
        for bucket in ["token_bucket", "leaky_bucket", "gcra"] {
            assert_eq!(in_force(&above, &own(bucket)), Ok(format!("{bucket} 200/day 100")));
        }
    }
}

/// 5000 a minute comes from two above; the one between counts it by its own second, and so does whoever is below.
#[test]
fn whoever_is_below_receives_what_counts() {
    let text = |own: &str| {
        format!(
            "
tenants:
  - {{ id: top, rate_limit: {{ sharing: enforce, {} }} }}
  - {{ id: part, parent: top, rate_limit: {{ sharing: inherit, algorithm: fixed_window, {} }} }}
  - {{ id: acme, parent: part{own} }}
",
            rate(5000, "minute"),
            rate(100, "second"),
        )
    };
    for (own, expected) in [
        ("", "fixed_window 83/second 83"),
        (", rate_limit: { sustained: { rate: 90 } }", "token_bucket 83/second 83"),
        (
            ", rate_limit: { algorithm: sliding_window, sustained: { rate: 90 } }",
            "sliding_window 83/second 83",
        ),
        (
            ", rate_limit: { algorithm: sliding_window, sustained: { rate: 10 } }",
            "sliding_window 10/second 10",
        ),
    ] {
        assert_eq!(of_acme(&text(own)), Ok(expected.to_owned()), "{own}");
    }
}
