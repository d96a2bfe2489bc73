//! Alternating measurements.

use std::sync::Barrier;
use std::time::Instant;

/// Nanoseconds of one call of `work`, called `calls` times by each of `threads` threads at once. `work`
/// is given the number of its thread and of the call.
pub fn nanos_per_call(threads: usize, calls: u64, work: impl Fn(usize, u64) + Sync) -> f64 {
    let barrier = Barrier::new(threads + 1);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (barrier, work) = (&barrier, &work);
            scope.spawn(move || {
                barrier.wait();
                for call in 0..calls {
                    work(thread, call);
                }
                barrier.wait();
            });
        }
        barrier.wait();
        let begin = Instant::now();
        barrier.wait();
        begin.elapsed().as_nanos() as f64 / calls as f64
    })
}

/// Nanoseconds of one call of `work` on this thread.
pub fn nanos_per_call_here(calls: u64, work: impl Fn()) -> f64 {
    let begin = Instant::now();
    (0..calls).for_each(|_| work());
    begin.elapsed().as_nanos() as f64 / calls as f64
}

/// Medians of what two sides took, and of the ratios between neighbouring measurements.
pub struct Pair {
    pub ours: f64,
    pub peer: f64,
    pub ratio: f64,
}

/// Measures ours and the peer in turns, swapping who is first.
pub fn alternate(
    rounds: usize,
    mut ours: impl FnMut() -> f64,
    mut peer: impl FnMut() -> f64,
) -> Pair {
    let mut pairs = Vec::new();
    for round in 0..rounds {
        pairs.push(if round % 2 == 0 {
            let ours = ours();
            (ours, peer())
        } else {
            let peer = peer();
            (ours(), peer)
        });
    }
    Pair {
        ours: median(pairs.iter().map(|(ours, _)| *ours)),
        peer: median(pairs.iter().map(|(_, peer)| *peer)),
        ratio: median(pairs.iter().map(|(ours, peer)| ours / peer)),
    }
}

pub fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// A cheap walk through keys in no order a processor could guess.
pub fn scatter(thread: usize, call: u64, keys: u64) -> u64 {
    let mixed = (call + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ ((thread as u64) << 40);
    (u128::from(mixed.wrapping_mul(0xd6e8_feb8_6659_fd93)) * u128::from(keys) >> 64) as u64
}

/// Bytes of this process that are in memory.
pub fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * 4096
}

/// CPU time of all threads of a process so far: its number, or `self`.
pub fn cpu_nanos(process: &str) -> u64 {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task"));
    let of = |task: std::path::PathBuf| {
        let stat = std::fs::read_to_string(task.join("schedstat")).ok()?;
        stat.split(' ').next()?.parse::<u64>().ok()
    };
    tasks.into_iter().flatten().filter_map(|task| of(task.ok()?.path())).sum()
}
