//! The locks and atomics the counters stand on, so that loom can take their place in its tests.

#[cfg(not(tollgate_loom))]
pub(crate) use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

#[cfg(tollgate_loom)]
pub(crate) use loom::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

#[cfg(not(tollgate_loom))]
pub(crate) use parking_lot::{Mutex, MutexGuard, RwLock};

#[cfg(tollgate_loom)]
pub(crate) use modelled::{Mutex, MutexGuard, RwLock};

/// Locks, giving way at first.
///
/// A lock that many threads want at once is fastest when whoever has its cache line keeps it for a
/// while, so a thread that finds it taken stays away for a growing number of spins, in which the
/// owner takes and releases it many times. Only a thread kept out for long, as by an owner that lost its
/// core, sleeps.
#[cfg(not(tollgate_loom))]
#[inline]
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    match mutex.try_lock() {
        Some(guard) => guard,
        None => lock_contended(mutex),
    }
}

/// Locks if nobody has it.
#[cfg(not(tollgate_loom))]
#[inline]
pub(crate) fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    mutex.try_lock()
}

#[cfg(not(tollgate_loom))]
#[cold]
fn lock_contended<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    for round in 4..10 {
        for _ in 0..1u32 << round {
            std::hint::spin_loop();
        }
        if let Some(guard) = mutex.try_lock() {
            return guard;
        }
    }
    mutex.lock()
}

#[cfg(tollgate_loom)]
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

#[cfg(tollgate_loom)]
pub(crate) fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    mutex.try_lock()
}

/// loom's locks with the interface of `parking_lot`'s.
#[cfg(tollgate_loom)]
mod modelled {
    pub(crate) use loom::sync::{MutexGuard, RwLockReadGuard, RwLockWriteGuard};

    #[derive(Debug)]
    pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Mutex<T> {
            Mutex(loom::sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().expect("a model never panics while it holds a lock")
        }

        pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
            self.0.try_lock().ok()
        }
    }

    #[derive(Debug)]
    pub(crate) struct RwLock<T>(loom::sync::RwLock<T>);

    impl<T> RwLock<T> {
        pub(crate) fn new(value: T) -> RwLock<T> {
            RwLock(loom::sync::RwLock::new(value))
        }

        pub(crate) fn read(&self) -> RwLockReadGuard<'_, T> {
            self.0.read().expect("a model never panics while it holds a lock")
        }

        pub(crate) fn write(&self) -> RwLockWriteGuard<'_, T> {
            self.0.write().expect("a model never panics while it holds a lock")
        }
    }
}
