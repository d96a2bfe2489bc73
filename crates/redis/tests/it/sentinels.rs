//! Sentinels with and without a password of their own, before a server that has one.

use std::time::Duration;

use tollgate_engine::{Limit, Rate};
use tollgate_redis::{Charge, Figures, Mode, Plain, Settings, Strict};

use crate::servers::{Brand, Server, on_both, run};

fn either_kind_is_asked(brand: Brand) {
    let server = Server::start_with(brand, &["--requirepass", "secret"]);
    let of_server = format!(
        "sentinel monitor billing 127.0.0.1 {} 1\nsentinel auth-pass billing secret\n",
        server.port()
    );
    for own in ["", "requirepass secret\n"] {
        let sentinel = Server::start_sentinel(brand, &format!("{own}{of_server}"));
        run(async {
            let url = format!("redis://:secret@127.0.0.1:{}", sentinel.port());
            let settings = Settings::new(&url).unwrap().mode(Mode::Sentinel).master("billing");
            let strict = Strict::start(settings.clone().timeout(Duration::from_secs(5)));
            let up = tokio::time::timeout(Duration::from_secs(30), strict.up()).await;
            assert!(up.is_ok(), "no way through a sentinel with {own:?}");
            let limit = Limit::token_bucket(Rate::per_day(10)).build().unwrap();
            let figures = Figures::of(&limit).unwrap();
            strict.take(&[Charge::new("one", &figures)]).await.unwrap();
            // And whoever listens.
            Plain::new(settings).subscribe("changes").await.unwrap();
        });
    }
}

on_both! {
    passwords => either_kind_is_asked;
}
