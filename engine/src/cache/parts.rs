//! Keys and values taken apart and put together again.

use crate::target::Parts;
use mlx_cpu::KvCache;
use mlx_rs::error::Exception;

/// What is held, `[B, Hkv, len, D]` each, without the room behind it.
pub(crate) fn export_kv(kv: &KvCache, name: &str, parts: &mut Parts) -> Result<(), Exception> {
    if let Some((keys, values)) = kv.state()?.filter(|(keys, _)| keys.dim(2) > 0) {
        parts.arrays.insert(format!("{name}.k"), keys);
        parts.arrays.insert(format!("{name}.v"), values);
    }
    Ok(())
}

/// Fills an empty cache that grows by `step` positions.
pub(crate) fn import_kv(kv: &mut KvCache, step: i32, name: &str, parts: &mut Parts) -> Result<(), Exception> {
    if let (Some(keys), Some(values)) = (parts.array(&format!("{name}.k")), parts.array(&format!("{name}.v"))) {
        if keys.dtype() != kv.dtype() || values.dtype() != kv.dtype() {
            return Err(Exception::custom("kept keys and values are of another type than this model's"));
        }
        *kv = KvCache::from_arrays(keys, values, step)?;
    }
    Ok(())
}
