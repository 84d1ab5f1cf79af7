//! What this computer is and how it fares. No MLX here.

pub use dspark_protocol::Pressure;
use dspark_protocol::{MemoryGuard, Shed};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use sysinfo::{CpuRefreshKind, MemoryRefreshKind, RefreshKind, System};

/// What does not change while the program runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    /// `Apple M4 Pro`, `AMD EPYC 9J14`: the processor's own name.
    pub chip: String,
    /// Logical processors.
    pub cores: usize,
    /// Bytes of main memory this process may use: the container's limit where there is one.
    pub ram: u64,
}

impl Machine {
    pub fn detect() -> Self {
        let system = System::new_with_specifics(
            RefreshKind::nothing()
                .with_cpu(CpuRefreshKind::nothing())
                .with_memory(MemoryRefreshKind::nothing().with_ram()),
        );
        let system = system.as_ref().ok();
        let brand = system
            .and_then(|system| Some(system.cpus().first()?.brand().trim().to_owned()))
            .unwrap_or_default();
        let limit = system
            .and_then(System::cgroup_limits)
            .map_or(u64::MAX, |limits| limits.total_memory);
        Self {
            chip: if brand.is_empty() {
                std::env::consts::ARCH.to_owned()
            } else {
                brand
            },
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            ram: system.map_or(0, System::total_memory).min(limit),
        }
    }
}

/// How short memory is now. macOS: the kernel's own level. Elsewhere by what is still available: under 10 % is a warning,
/// under 4 % critical.
pub fn pressure() -> Pressure {
    #[cfg(target_os = "macos")]
    if let Some(level) = kernel_level() {
        return level;
    }
    let Ok(system) = System::new_with_specifics(RefreshKind::nothing().with_memory(MemoryRefreshKind::nothing().with_ram())) else {
        return Pressure::Normal;
    };
    let (mut available, mut total) = (system.available_memory(), system.total_memory());
    if let Some(limits) = system.cgroup_limits().filter(|limits| limits.total_memory < total) {
        (available, total) = (limits.free_memory.min(available), limits.total_memory);
    }
    pressure_of(available, total)
}

fn pressure_of(available: u64, total: u64) -> Pressure {
    match available as f64 / total.max(1) as f64 {
        _ if total == 0 => Pressure::Normal,
        share if share < 0.04 => Pressure::Critical,
        share if share < 0.10 => Pressure::Warning,
        _ => Pressure::Normal,
    }
}

/// Bytes of swap in use; `None` where there is none, or the system does not tell.
pub fn swap_used() -> Option<u64> {
    let kinds = RefreshKind::nothing().with_memory(MemoryRefreshKind::nothing().with_swap());
    let system = System::new_with_specifics(kinds).ok()?;
    (system.total_swap() > 0).then(|| system.used_swap())
}

#[cfg(target_os = "macos")]
fn kernel_level() -> Option<Pressure> {
    kernel_number(c"kern.memorystatus_vm_pressure_level").map(|level| match level {
        4 => Pressure::Critical,
        2 => Pressure::Warning,
        _ => Pressure::Normal,
    })
}

/// macOS: the most that may be wired for the GPU, in MB; 0 is the system's own choice. `None` elsewhere.
pub fn wired_limit_mb() -> Option<i64> {
    #[cfg(target_os = "macos")]
    return kernel_number(c"iogpu.wired_limit_mb").map(i64::from);
    #[cfg(not(target_os = "macos"))]
    None
}

#[cfg(target_os = "macos")]
#[allow(unsafe_code)]
fn kernel_number(name: &std::ffi::CStr) -> Option<libc::c_int> {
    let mut number: libc::c_int = 0;
    let mut size = size_of::<libc::c_int>();
    // SAFETY: the name is a C string, and the kernel writes at most `size` bytes into `number`.
    let status = unsafe { libc::sysctlbyname(name.as_ptr(), (&raw mut number).cast(), &raw mut size, std::ptr::null_mut(), 0) };
    (status == 0).then_some(number)
}

/// Watches memory pressure and reports when it rises. Source: `spec/caching-batching.md` §2.
#[derive(Debug)]
pub struct PressureWatch {
    read: fn() -> Pressure,
    checked: Instant,
    guard: MemoryGuard,
    /// When a level or a lower one last called for action.
    acted: Option<(Pressure, Instant)>,
}

/// Time between looks.
pub const LOOK_EVERY: Duration = Duration::from_secs(3);
/// The same level calls for action again only after this long.
const REARM: Duration = Duration::from_mins(2);

impl Default for PressureWatch {
    fn default() -> Self {
        Self::new(pressure)
    }
}

impl PressureWatch {
    /// `read` says how short memory is.
    pub fn new(read: fn() -> Pressure) -> Self {
        Self {
            read,
            checked: Instant::now(),
            guard: MemoryGuard {
                rearm_s: REARM.as_secs(),
                ..MemoryGuard::default()
            },
            acted: None,
        }
    }

    /// What it saw, and what was done about it.
    pub fn guard(&self) -> MemoryGuard {
        self.guard
    }

    /// Memory was given back; the allocator's bytes before and after.
    pub fn shed(&mut self, level: Pressure, before: u64, after: u64, prompts_dropped: bool) {
        self.guard.sheds += 1;
        self.guard.last_shed = Some(Shed {
            level,
            at: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
            allocator_before: before,
            allocator_after: after,
            freed_bytes: before.saturating_sub(after),
            prompts_dropped,
        });
    }

    /// Looks, if it is time; a level that calls for action now.
    pub fn look(&mut self) -> Option<Pressure> {
        let now = Instant::now();
        if now.duration_since(self.checked) < LOOK_EVERY {
            return None;
        }
        self.checked = now;
        self.note((self.read)(), now)
    }

    fn note(&mut self, level: Pressure, now: Instant) -> Option<Pressure> {
        self.guard.level = level;
        if level == Pressure::Normal {
            self.acted = None;
            return None;
        }
        let waits = self
            .acted
            .is_some_and(|(acted, at)| level <= acted && now.duration_since(at) < REARM);
        if waits {
            return None;
        }
        self.acted = Some((level, now));
        Some(level)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_a_name_cores_and_memory() {
        let machine = Machine::detect();
        assert!(!machine.chip.is_empty());
        assert!(machine.cores >= 1);
        assert!(machine.ram > 256 << 20, "{}", machine.ram);
    }

    #[test]
    fn pressure_follows_what_is_left() {
        assert_eq!(pressure_of(50, 100), Pressure::Normal);
        assert_eq!(pressure_of(9, 100), Pressure::Warning);
        assert_eq!(pressure_of(3, 100), Pressure::Critical);
        assert_eq!(pressure_of(0, 0), Pressure::Normal);
    }

    #[test]
    fn a_rise_calls_once_escalation_calls_again_and_normal_rearms() {
        let mut watch = PressureWatch::default();
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(watch.note(Pressure::Warning, at(0)), Some(Pressure::Warning));
        assert_eq!(watch.note(Pressure::Warning, at(3)), None);
        assert_eq!(watch.note(Pressure::Critical, at(6)), Some(Pressure::Critical));
        assert_eq!(watch.note(Pressure::Warning, at(9)), None);
        assert_eq!(watch.note(Pressure::Critical, at(127)), Some(Pressure::Critical));
        assert_eq!(watch.note(Pressure::Normal, at(130)), None);
        assert_eq!(watch.note(Pressure::Warning, at(133)), Some(Pressure::Warning));
    }
}
