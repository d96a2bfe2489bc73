//! Chains across the slots of a cluster: what one slot refuses is refused, whatever the others have to say.

use std::time::Duration;

use tollgate_engine::{Limit, Rate, Verdict};
use tollgate_redis::{Answer, Charge, Figures, Mode, Settings, Strict, Unavailable};

use crate::groups::Cluster;
use crate::servers::{Brand, Server, on_both, run, until};

/// Long enough to prepare everything while a call waits.
const TIMEOUT: Duration = Duration::from_secs(5);

fn bucket(capacity: u64) -> Figures {
    Figures::of(&Limit::token_bucket(Rate::per_day(1)).burst(capacity).build().unwrap()).unwrap()
}

/// A plentiful counter in the first server of a cluster and a used-up one in the last, or the other way round.
struct Chain {
    cluster: Cluster,
    strict: Strict,
    much: (String, Figures),
    used_up: (String, Figures),
}

impl Chain {
    async fn start(brand: Brand, [much_on, used_up_on]: [usize; 2]) -> Chain {
        let cluster = Cluster::start(brand);
        let settings = Settings::new(&cluster.url()).unwrap().mode(Mode::Cluster);
        let strict = Strict::start(settings.timeout(TIMEOUT));
        strict.up().await;
        let on = |server: usize| {
            let port = cluster.servers()[server].port();
            let mut names = (0..100).map(|nth| format!("key-{nth}"));
            names.find(|name| cluster.home_of(name).port() == port).unwrap()
        };
        let (much, used_up) = ((on(much_on), bucket(100)), (on(used_up_on), bucket(1)));
        let taken = strict.take(&[Charge::new(&used_up.0, &used_up.1)]).await.unwrap();
        assert!(taken.verdict().is_admitted());
        Chain { cluster, strict, much, used_up }
    }

    async fn take(&self) -> Result<Answer, Unavailable> {
        let chain = [&self.much, &self.used_up].map(|(key, figures)| Charge::new(key, figures));
        self.strict.take(&chain).await
    }

    fn server(&self, number: usize) -> &Server {
        &self.cluster.servers()[number]
    }
}

fn pause(server: &Server) {
    server.ask::<String>(&["CLIENT", "PAUSE", "60000", "WRITE"]);
}

fn is_refused_by_the_second(answer: &Answer) -> bool {
    matches!(answer.verdict(), Verdict::Refused { by: 1, .. })
}

/// The first slot has charged it, the last refuses it, and the first does not answer when it is given back.
fn giving_back_is_slow(brand: Brand) {
    run(async {
        let chain = Chain::start(brand, [0, 2]).await;
        pause(chain.server(2));
        let prepare = async {
            until("the first slot has charged it", || {
                chain.cluster.tokens(&chain.much.0) == Some(99)
            })
            .await;
            pause(chain.server(0));
            chain.server(2).ask::<String>(&["CLIENT", "UNPAUSE"]);
        };
        let (answer, ()) = tokio::join!(chain.take(), prepare);
        let answer = answer.unwrap();
        assert!(is_refused_by_the_second(&answer), "{:?}", answer.verdict());
        assert!(answer.is_known(0) && !answer.is_charged(0));
    });
}

/// The first slot refuses it, and the last does not answer.
fn the_rest_is_not_answered(brand: Brand) {
    run(async {
        let chain = Chain::start(brand, [2, 0]).await;
        pause(chain.server(2));
        let answer = chain.take().await.unwrap();
        assert!(is_refused_by_the_second(&answer), "{:?}", answer.verdict());
        assert!(!answer.is_known(0) && answer.is_known(1));
    });
}

on_both! {
    slow_return => giving_back_is_slow;
    unanswered => the_rest_is_not_answered;
}
