//! The locks and atomics the counters stand on, so that loom can take their place in its tests.

#[cfg(not(tollgate_loom))]
pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

#[cfg(tollgate_loom)]
pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

#[cfg(not(tollgate_loom))]
pub(crate) use parking_lot::RwLock;

/// A lock that is released by a plain store, where one that can put threads to sleep needs a second atomic
/// exchange: of five locks in a chain, a fifth of its time. It is held for tens of nanoseconds, and for tens of
/// microseconds when a table grows or is looked through.
#[cfg(not(tollgate_loom))]
pub(crate) type Mutex<T> = spin::mutex::SpinMutex<T>;

#[cfg(not(tollgate_loom))]
pub(crate) type MutexGuard<'m, T> = spin::mutex::SpinMutexGuard<'m, T>;

#[cfg(tollgate_loom)]
pub(crate) use modelled::{Mutex, MutexGuard, RwLock};

/// A value behind a lock, on a cache line of its own so that neighbours do not slow each other down.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Locker<T> {
    value: Mutex<T>,
    /// How sure it is that many threads want this lock all the time.
    #[cfg_attr(tollgate_loom, allow(dead_code, reason = "the model's lock does not spin"))]
    heat: AtomicU32,
}

/// From so much heat on, a lock is one that many threads want all the time.
#[cfg(not(tollgate_loom))]
const HOT: u32 = 32;
/// What is added, up to twice the above, when somebody who has waited a little finds it taken again.
#[cfg(not(tollgate_loom))]
const WARMER: u32 = 4;
/// Spins of a thread that stays away, some microseconds.
#[cfg(not(tollgate_loom))]
const LONG: u32 = 512;

impl<T> Locker<T> {
    pub(crate) fn new(value: T) -> Locker<T> {
        Locker { value: Mutex::new(value), heat: AtomicU32::new(0) }
    }

    /// Locks if nobody has it.
    #[inline]
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.value.try_lock()
    }

    /// Locks, giving way.
    #[inline]
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        match self.value.try_lock() {
            Some(guard) => guard,
            None => self.lock_taken(),
        }
    }

    /// Two that meet by chance are out of each other's way at once. A lock that many threads want all the
    /// time is fastest when whoever has its cache line keeps it for a while: whoever finds it taken stays away
    /// for some microseconds, in which the owner takes and releases it a hundred times. Together they are
    /// then as fast as one alone, and half as fast if all kept trying. Kept out for long, as by an owner that
    /// lost its core, a thread gives its own core away.
    ///
    /// Which of the two it is shows after the first wait: met by chance, the lock is free then nearly always.
    #[cfg(not(tollgate_loom))]
    #[cold]
    fn lock_taken(&self) -> MutexGuard<'_, T> {
        let heat = self.heat.load(Ordering::Relaxed);
        let mut spins = if heat < HOT { 8 } else { LONG };
        if let Some(guard) = self.lock_after(spins) {
            self.heat.store(heat.saturating_sub(1), Ordering::Relaxed);
            return guard;
        }
        self.heat.store((heat + WARMER).min(2 * HOT), Ordering::Relaxed);
        loop {
            match spins {
                ..LONG => spins *= 2,
                _ => std::thread::yield_now(),
            }
            if let Some(guard) = self.lock_after(spins) {
                return guard;
            }
        }
    }

    #[cfg(not(tollgate_loom))]
    fn lock_after(&self, spins: u32) -> Option<MutexGuard<'_, T>> {
        for _ in 0..spins {
            std::hint::spin_loop();
        }
        self.value.try_lock()
    }

    #[cfg(tollgate_loom)]
    fn lock_taken(&self) -> MutexGuard<'_, T> {
        self.value.lock()
    }

    #[cfg(test)]
    pub(crate) fn heat(&self) -> u32 {
        self.heat.load(Ordering::Relaxed)
    }
}

/// Locks for loom with the interface of `parking_lot`'s.
///
/// loom lets a thread that only tries a lock wait for it as if it had to, which makes it report
/// deadlocks that cannot happen. So being locked is a flag of its own, and the lock inside is never
/// contended.
#[cfg(tollgate_loom)]
mod modelled {
    use std::ops::{Deref, DerefMut};

    use loom::sync::atomic::{AtomicBool, Ordering};
    pub(crate) use loom::sync::{RwLockReadGuard, RwLockWriteGuard};

    const FREE: &str = "only whoever has set the flag locks";

    #[derive(Debug)]
    pub(crate) struct Mutex<T> {
        locked: AtomicBool,
        value: loom::sync::Mutex<T>,
    }

    #[derive(Debug)]
    pub(crate) struct MutexGuard<'m, T> {
        mutex: &'m Mutex<T>,
        inner: Option<loom::sync::MutexGuard<'m, T>>,
    }

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Mutex<T> {
            Mutex { locked: AtomicBool::new(false), value: loom::sync::Mutex::new(value) }
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            loop {
                match self.try_lock() {
                    Some(guard) => return guard,
                    None => loom::thread::yield_now(),
                }
            }
        }

        pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
            let (acquire, relaxed) = (Ordering::Acquire, Ordering::Relaxed);
            self.locked.compare_exchange(false, true, acquire, relaxed).ok()?;
            Some(MutexGuard { mutex: self, inner: Some(self.value.lock().expect(FREE)) })
        }
    }

    impl<T> Deref for MutexGuard<'_, T> {
        type Target = T;

        fn deref(&self) -> &T {
            self.inner.as_ref().expect(FREE)
        }
    }

    impl<T> DerefMut for MutexGuard<'_, T> {
        fn deref_mut(&mut self) -> &mut T {
            self.inner.as_mut().expect(FREE)
        }
    }

    impl<T> Drop for MutexGuard<'_, T> {
        fn drop(&mut self) {
            self.inner = None;
            self.mutex.locked.store(false, Ordering::Release);
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
