use std::{
    sync::{Arc, Condvar, Mutex, PoisonError},
    time::Duration,
};

/// A thread that works on the latest thing it was given; what was replaced before its turn is never worked on.
pub(super) struct Latest<T>(Arc<Slot<T>>);

struct Slot<T> {
    value: Mutex<(Option<T>, bool)>,
    changed: Condvar,
}

impl<T: Send + 'static> Latest<T> {
    /// `settle` is how long a value must stay the latest before work on it begins.
    pub(super) fn new(name: &str, settle: Duration, work: impl Fn(T) + Send + 'static) -> Self {
        let slot = Arc::new(Slot {
            value: Mutex::new((None, false)),
            changed: Condvar::new(),
        });
        let inner = slot.clone();
        let spawned = std::thread::Builder::new().name(name.into()).spawn(move || {
            while let Some(value) = inner.take(settle) {
                work(value);
            }
        });
        if let Err(error) = spawned {
            tracing::error!("cannot start the thread `{name}`: {error}");
        }
        Self(slot)
    }

    pub(super) fn set(&self, value: T) {
        self.0.value.lock().unwrap_or_else(PoisonError::into_inner).0 = Some(value);
        self.0.changed.notify_one();
    }
}

impl<T> Slot<T> {
    fn take(&self, settle: Duration) -> Option<T> {
        let mut guard = self.value.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if guard.1 {
                return guard.0.take();
            }
            if guard.0.is_none() {
                guard = self.changed.wait(guard).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            if settle.is_zero() {
                return guard.0.take();
            }
            let (next, waited) = self.changed.wait_timeout(guard, settle).unwrap_or_else(PoisonError::into_inner);
            guard = next;
            if waited.timed_out() {
                return guard.0.take();
            }
        }
    }
}

impl<T> Drop for Latest<T> {
    fn drop(&mut self) {
        self.0.value.lock().unwrap_or_else(PoisonError::into_inner).1 = true;
        self.0.changed.notify_one();
    }
}
