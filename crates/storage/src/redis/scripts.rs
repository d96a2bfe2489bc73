//! The scripts, put together from their files.

use std::sync::LazyLock;

use tollgate_redis::Lua;

const NAMES: &str = include_str!("../../scripts/names.lua");
const ONCE: &str = include_str!("../../scripts/once.lua");

macro_rules! scripts {
    ($($name:ident = [$($shared:ident),*], $file:literal;)*) => {$(
        pub(super) static $name: LazyLock<Lua> =
            LazyLock::new(|| Lua::new(&[$($shared,)* include_str!(concat!("../../scripts/", $file))]));
    )*};
}

scripts! {
    OPEN = [NAMES], "open.lua";
    COMMIT = [NAMES, ONCE], "commit.lua";
    USAGE = [NAMES, ONCE], "usage.lua";
    TIDY = [NAMES], "tidy.lua";
    CHANGES = [NAMES], "changes.lua";
    RESERVE = [], "reserve.lua";
    REFUND = [], "refund.lua";
}
