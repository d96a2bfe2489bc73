//! The services over real connections: CPU time of a process of their own, core 0, asked by wrk from core 1.

use super::Rounds;
use super::services::Side;
use crate::gateway::load::{Answered, Asks, Load};
use crate::gateway::proxies::{Proxy, free_port};
use crate::report::Report;

const ROUNDS: usize = 15;

pub fn run(report: &mut Report) -> Result<(), String> {
    let mut servers = Vec::new();
    for side in Side::ALL {
        let port = free_port()?;
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        let words = [
            program.to_string_lossy().into_owned(),
            "middleware".into(),
            "serve".into(),
            side.name().into(),
            port.to_string(),
        ];
        servers.push(Proxy::program(&words, port)?);
    }
    let load = Load { connections: 32, seconds: 1, answered: Answered::Well, asks: Asks::Same };
    for server in &servers {
        load.on(server)?;
    }
    let rounds = Rounds::measure(ROUNDS, |side| Ok(load.on(&servers[side as usize])?.micros))?;
    for side in Side::ALL {
        report.row(&[
            ("bench", "loopback".into()),
            ("side", side.name().into()),
            ("cpu_us", rounds.median(side).into()),
            ("added_us", rounds.added(side).into()),
        ]);
    }
    Ok(())
}

/// One side as a server, until it is killed.
pub fn serve(side: Side, port: u64) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let port = u16::try_from(port).expect("a port");
        let listener =
            tokio::net::TcpListener::bind(("127.0.0.1", port)).await.expect("it is free");
        axum::serve(listener, side.router()).await.expect("it serves until it is killed");
    });
}
