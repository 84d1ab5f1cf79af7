//! The device that MLX computes on: which, how much memory, and giving memory back.

use dspark_protocol::Memory;
use mlx_cpu::Backend;
use mlx_rs::{Device as MlxDevice, DeviceType, error::Exception, memory};
use std::ffi::{CStr, c_char};

/// `cpu` computes on the processor even where there is a GPU; `gpu` refuses to start without one.
pub const DEVICE_VARIABLE: &str = "MLX_DSPARK_DEVICE";

/// What computes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// `cpu`, `cuda` or `metal`.
    pub backend: &'static str,
    /// The GPU's name; `None` on the CPU, whose name is the machine's.
    pub name: Option<String>,
    /// Bytes that the GPU can give a model; `None` on the CPU, which has main memory.
    pub memory: Option<u64>,
    pub mlx_version: String,
}

impl Device {
    /// Makes the default device the one to use, once, before anything is computed: the GPU where MLX finds one, unless
    /// [`DEVICE_VARIABLE`] says otherwise. On Metal it also lets MLX keep what a model needs resident.
    ///
    /// # Errors
    /// When the wanted device is not there, or MLX cannot say.
    pub fn choose() -> Result<Self, Exception> {
        Self::choose_as(std::env::var(DEVICE_VARIABLE).ok().as_deref())
    }

    fn choose_as(wanted: Option<&str>) -> Result<Self, Exception> {
        // Also installs mlx-rs's error handler; without one MLX's errors would end the process.
        let default = MlxDevice::try_default()?.get_type()?;
        match wanted {
            Some("cpu") => MlxDevice::set_default(&MlxDevice::cpu()),
            Some("gpu") if !matches!(default, DeviceType::Gpu) => {
                return Err(Exception::custom(format!(
                    "{DEVICE_VARIABLE} asks for a GPU, but MLX finds none: check the driver and which MLX library is loaded"
                )));
            }
            None | Some("gpu" | "") => (),
            Some(other) => {
                return Err(Exception::custom(format!(
                    "{DEVICE_VARIABLE} is `{other}`; it may be `cpu` or `gpu`"
                )));
            }
        }
        let device = Self::current()?;
        if let (Backend::Metal, Some(bytes)) = (mlx_cpu::backend(), device.memory) {
            memory::set_wired_limit(bytes as usize)?;
        }
        Ok(device)
    }

    /// The default device as it is.
    pub fn current() -> Result<Self, Exception> {
        let backend = match mlx_cpu::backend() {
            Backend::Cpu => "cpu",
            Backend::Cuda => "cuda",
            Backend::Metal => "metal",
        };
        let info = (backend != "cpu").then(Info::of_gpu).transpose()?;
        let info = info.as_ref();
        // Metal says how much it likes to hold; a discrete GPU has what it has.
        let sizes = [c"max_recommended_working_set_size", c"total_memory", c"memory_size"];
        Ok(Self {
            backend,
            name: info.and_then(|info| info.text(c"device_name")),
            memory: info.and_then(|info| sizes.into_iter().find_map(|key| info.size(key))),
            mlx_version: mlx_version()?,
        })
    }
}

/// Bytes as MLX counts them; `limit` is what a model may use of the device, or of `ram` on the CPU, by the same rule as every
/// verdict on whether a model fits.
pub fn memory(device: &Device, ram: u64) -> Memory {
    let bytes = |counted: Result<usize, Exception>| counted.map_or(0, |n| n as u64);
    Memory {
        active: bytes(memory::active_memory()),
        cache: bytes(memory::cache_memory()),
        peak: bytes(memory::peak_memory()),
        limit: budget(device, ram),
    }
}

fn budget(device: &Device, ram: u64) -> u64 {
    let machine = dspark_hub::fit::Machine {
        ram,
        working_set: device.memory,
        available: None,
    };
    machine.budget()
}

/// Gives freed memory back to the system. Call it after a model has been dropped.
pub fn release() -> Result<(), Exception> {
    memory::clear_cache()?;
    memory::reset_peak_memory()?;
    give_back_heap();
    Ok(())
}

/// glibc keeps freed blocks for later; a model's worth of them should go.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[allow(unsafe_code)]
fn give_back_heap() {
    // SAFETY: takes no pointers; safe to call at any time from any thread.
    unsafe { libc::malloc_trim(0) };
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn give_back_heap() {}

#[allow(unsafe_code)]
fn mlx_version() -> Result<String, Exception> {
    // SAFETY: the string is made, filled, copied and freed here.
    unsafe {
        let mut text = mlx_sys::mlx_string_new();
        let status = mlx_sys::mlx_version(&raw mut text);
        let version = owned(mlx_sys::mlx_string_data(text));
        mlx_sys::mlx_string_free(text);
        version
            .filter(|_| status == 0)
            .ok_or_else(|| Exception::custom("MLX does not tell its version"))
    }
}

/// A copy of a C string.
///
/// # Safety
/// `text` is null or ends with a zero.
#[allow(unsafe_code)]
unsafe fn owned(text: *const c_char) -> Option<String> {
    // SAFETY: by the contract above.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}

/// Properties of the GPU.
struct Info(mlx_sys::mlx_device_info);

#[allow(unsafe_code)]
impl Info {
    fn of_gpu() -> Result<Self, Exception> {
        // SAFETY: the device is made and freed here; `Info` owns what is filled.
        unsafe {
            let mut info = Self(mlx_sys::mlx_device_info_new());
            let gpu = mlx_sys::mlx_device_new_type(mlx_sys::mlx_device_type__MLX_GPU, 0);
            let status = mlx_sys::mlx_device_info_get(&raw mut info.0, gpu);
            mlx_sys::mlx_device_free(gpu);
            if status == 0 {
                Ok(info)
            } else {
                Err(Exception::custom("MLX does not describe its GPU"))
            }
        }
    }

    fn has(&self, key: &CStr) -> bool {
        let mut exists = false;
        // SAFETY: the handle and the key live through the call.
        let status = unsafe { mlx_sys::mlx_device_info_has_key(&raw mut exists, self.0, key.as_ptr()) };
        status == 0 && exists
    }

    fn text(&self, key: &CStr) -> Option<String> {
        let mut value = std::ptr::null();
        // SAFETY: as in `has`; the text belongs to the info and is copied at once.
        unsafe { (self.has(key) && mlx_sys::mlx_device_info_get_string(&raw mut value, self.0, key.as_ptr()) == 0).then(|| owned(value))? }
    }

    fn size(&self, key: &CStr) -> Option<u64> {
        let mut value = 0;
        // SAFETY: as in `has`.
        let found = self.has(key) && unsafe { mlx_sys::mlx_device_info_get_size(&raw mut value, self.0, key.as_ptr()) } == 0;
        (found && value > 0).then_some(value as u64)
    }
}

#[allow(unsafe_code)]
impl Drop for Info {
    fn drop(&mut self) {
        // SAFETY: made in `of_gpu`, freed once.
        unsafe { mlx_sys::mlx_device_info_free(self.0) };
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_device_is_known() {
        let device = Device::choose_as(None).unwrap();
        assert!(device.mlx_version.starts_with("0."), "{device:?}");
        assert!(["cpu", "cuda", "metal"].contains(&device.backend));
        assert_eq!(device.backend == "cpu", device.memory.is_none());
        let seen = memory(&device, 24 << 30);
        // On a processor the system keeps 4 GiB of 24.
        assert_eq!(seen.limit, device.memory.unwrap_or(20 << 30));
    }

    #[test]
    fn an_unknown_device_is_refused() {
        let message = Device::choose_as(Some("tpu")).unwrap_err().to_string();
        assert!(message.contains("`tpu`") && message.contains("`cpu` or `gpu`"), "{message}");
    }
}
