//! What this computer is and how it fares. No MLX here.

use std::time::{Duration, Instant};
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

/// How short memory is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Pressure {
    #[default]
    Normal,
    Warning,
    Critical,
}

impl Pressure {
    /// macOS: the kernel's own level. Elsewhere by what is still available: under 10 % is a warning, under 4 % critical.
    pub fn now() -> Self {
        #[cfg(target_os = "macos")]
        if let Some(level) = kernel_level() {
            return level;
        }
        let Ok(system) = System::new_with_specifics(RefreshKind::nothing().with_memory(MemoryRefreshKind::nothing().with_ram())) else {
            return Self::Normal;
        };
        let (mut available, mut total) = (system.available_memory(), system.total_memory());
        if let Some(limits) = system.cgroup_limits().filter(|limits| limits.total_memory < total) {
            (available, total) = (limits.free_memory.min(available), limits.total_memory);
        }
        Self::of(available, total)
    }

    fn of(available: u64, total: u64) -> Self {
        match available as f64 / total.max(1) as f64 {
            _ if total == 0 => Self::Normal,
            share if share < 0.04 => Self::Critical,
            share if share < 0.10 => Self::Warning,
            _ => Self::Normal,
        }
    }
}

#[cfg(target_os = "macos")]
#[allow(unsafe_code)]
fn kernel_level() -> Option<Pressure> {
    let mut level: libc::c_int = 0;
    let mut size = size_of::<libc::c_int>();
    // SAFETY: the name is a C string, and the kernel writes at most `size` bytes into `level`.
    let status = unsafe {
        libc::sysctlbyname(
            c"kern.memorystatus_vm_pressure_level".as_ptr(),
            (&raw mut level).cast(),
            &raw mut size,
            std::ptr::null_mut(),
            0,
        )
    };
    (status == 0).then_some(match level {
        4 => Pressure::Critical,
        2 => Pressure::Warning,
        _ => Pressure::Normal,
    })
}

/// Watches memory pressure and reports when it rises. Source: `spec/caching-batching.md` §2.
#[derive(Debug)]
pub struct PressureWatch {
    checked: Instant,
    /// When a level or a lower one last called for action.
    acted: Option<(Pressure, Instant)>,
}

/// Time between looks.
pub const LOOK_EVERY: Duration = Duration::from_secs(3);
/// The same level calls for action again only after this long.
const REARM: Duration = Duration::from_mins(2);

impl Default for PressureWatch {
    fn default() -> Self {
        Self {
            checked: Instant::now(),
            acted: None,
        }
    }
}

impl PressureWatch {
    /// Looks, if it is time; a level that calls for action now.
    pub fn look(&mut self) -> Option<Pressure> {
        let now = Instant::now();
        if now.duration_since(self.checked) < LOOK_EVERY {
            return None;
        }
        self.checked = now;
        self.note(Pressure::now(), now)
    }

    fn note(&mut self, level: Pressure, now: Instant) -> Option<Pressure> {
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
        assert_eq!(Pressure::of(50, 100), Pressure::Normal);
        assert_eq!(Pressure::of(9, 100), Pressure::Warning);
        assert_eq!(Pressure::of(3, 100), Pressure::Critical);
        assert_eq!(Pressure::of(0, 0), Pressure::Normal);
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
