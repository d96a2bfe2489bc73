//! Who asked, and what becomes of what was granted.

use std::time::Duration;

use tollgate_engine::{Limit, Rate};

use super::*;
use crate::answer::Left;
use crate::slice::Report;

/// Somebody else may spend it before the one who asked for it does; that is no refusal.
#[tokio::test(start_paused = true)]
async fn what_was_granted_and_is_gone_is_worth_asking_again() {
    let limit = Limit::token_bucket(Rate::per_second(100)).build().unwrap();
    let figures = Arc::new(Figures::of(&limit).unwrap());
    let held = Held::new("one".to_owned(), &figures, None);
    let left = Left { one: 50, two: 0, three: 0 };
    let lives = Duration::from_secs(1);
    let grant = |holds| Grant { holds, lives, mark: 7, at: 0, left };
    let begin = |holds| {
        held.slice.lock().begin(grant(holds), Report::default(), holds, Instant::now());
    };
    begin(5);
    assert!(held.decide(&figures, 5, grant(5)).unwrap().decision.is_allowed());
    assert!(held.decide(&figures, 5, grant(5)).is_none(), "it is spent");
    begin(4);
    assert!(!held.decide(&figures, 5, grant(4)).unwrap().decision.is_allowed(), "too little");
}
