//! The entry of a linear layer: what x is made of, what the weights are.

#[cfg(not(target_arch = "aarch64"))]
use super::quantized;
use super::{
    elementwise::{norm_row, swiglu_row},
    entry::{Call, Outcome, Rows, dense, entry, float, shape},
    format::{Affine, Bf16, F16, F32},
    linear::{Product, product},
    simd::{Float, Isa},
};
use mlx_sys::mlx_host_view as View;

/// Parameters of [`linear`]: which inputs there are, in this order after x and w.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Layer {
    /// 0: dense.
    pub(crate) bits: i64,
    pub(crate) group: i64,
    pub(crate) bias: bool,
    pub(crate) residual: bool,
    /// x is normed first, with this eps.
    pub(crate) norm: Option<f32>,
    pub(crate) norm_weight: bool,
    /// x is a gate and what it lets through, side by side.
    pub(crate) swiglu: bool,
}

impl Layer {
    pub(crate) fn params(self) -> [i64; 8] {
        let flag = i64::from;
        let (normed, eps) = self.norm.map_or((0, 0), |eps| (1, i64::from(eps.to_bits())));
        [
            self.bits,
            self.group,
            flag(self.bias),
            flag(self.residual),
            normed,
            eps,
            flag(self.norm_weight),
            flag(self.swiglu),
        ]
    }

    fn from_params(p: &[i64]) -> Self {
        Self {
            bits: p[0],
            group: p[1],
            bias: p[2] != 0,
            residual: p[3] != 0,
            norm: (p[4] != 0).then(|| f32::from_bits(p[5] as u32)),
            norm_weight: p[6] != 0,
            swiglu: p[7] != 0,
        }
    }
}

entry!(linear, run);

/// Rows without gaps inside, any distance apart: (bytes from row to row).
fn pitch(view: &View, size: usize) -> Result<usize, String> {
    let &[n, k] = shape(view) else {
        return Err(format!("weights of shape {:?} are not a matrix", shape(view)));
    };
    if (k > 1 && view.strides[1] != 1) || (n > 1 && view.strides[0] < k) {
        return Err(format!("weights of strides {:?} have gaps", &view.strides[..2]));
    }
    Ok(if n > 1 { view.strides[0] } else { k } as usize * size)
}

/// Inputs x, w, and what [`Layer`] says.
unsafe fn run(call: &Call) -> Outcome {
    let (layer, isa) = (Layer::from_params(call.params), Isa::detect());
    let mut inputs = call.inputs.iter();
    let mut next = || inputs.next().ok_or_else(|| "an input is missing".to_string());
    let (x, w) = (Rows::new(next()?)?, next()?);
    let (n, k) = (w.shape[0] as usize, if layer.swiglu { x.width / 2 } else { x.width });
    let quantized = if layer.bits > 0 { Some((next()?, next()?)) } else { None };
    let f32s = |view: &View| -> Result<Vec<f32>, String> {
        let rows = Rows::new(view)?;
        let mut all = vec![0.0; rows.width];
        let at = rows.floats(0, all.as_mut_ptr());
        if at != all.as_ptr() {
            at.copy_to_nonoverlapping(all.as_mut_ptr(), rows.width);
        }
        Ok(all)
    };
    let norm_weight = if layer.norm_weight { f32s(next()?)? } else { vec![] };
    let bias = if layer.bias { f32s(next()?)? } else { vec![] };
    let residual = if layer.residual { Some(next()?) } else { None };
    let y = &call.outputs[0];
    let y_type = float(y)?;
    if let Some(residual) = residual
        && (shape(residual) != shape(y) || residual.dtype != y.dtype || !dense(residual))
    {
        return Err(format!(
            "the residual is of type {} and shape {:?}, the result of {} and {:?}",
            residual.dtype,
            shape(residual),
            y.dtype,
            shape(y)
        ));
    }
    if layer.bias && bias.len() != n || layer.norm_weight && norm_weight.len() != k {
        return Err(format!(
            "{} biases and {} norm weights for {n} x {k}",
            bias.len(),
            norm_weight.len()
        ));
    }

    let norm = if norm_weight.is_empty() {
        std::ptr::null()
    } else {
        norm_weight.as_ptr()
    } as usize;
    let row = |m: usize, buffer: *mut f32| {
        let start = x.floats(m, buffer.add(k));
        match layer.norm {
            Some(eps) => norm_row(isa, start, norm as *const f32, buffer, k, eps),
            None if layer.swiglu => swiglu_row(isa, start, start.add(k), buffer, k),
            None => return start,
        }
        buffer.cast_const()
    };
    let mut p = Product {
        m: x.count,
        n,
        k,
        x_row: &row,
        x_room: k + x.width,
        w: w.data.cast(),
        pitch: 0,
        scales: std::ptr::null(),
        biases: std::ptr::null(),
        scale_type: Float::F32,
        scale_pitch: 0,
        bias: if layer.bias { bias.as_ptr() } else { std::ptr::null() },
        y: y.data.cast(),
        y_type,
        residual: residual.map_or(std::ptr::null(), |r| r.data.cast_const().cast()),
    };
    if let Some((scales, biases)) = quantized {
        p.pitch = pitch(w, 4)?;
        p.scale_type = float(scales)?;
        p.scale_pitch = pitch(scales, p.scale_type.size())?;
        if scales.dtype != biases.dtype || pitch(biases, p.scale_type.size())? != p.scale_pitch || w.shape[1] * 32 != k as i64 * layer.bits
        {
            return Err("scales and biases differ, or do not fit the weights".into());
        }
        p.scales = scales.data.cast();
        p.biases = biases.data.cast();
        affine(isa, &p, layer.bits, layer.group)?;
    } else {
        let kind = float(w)?;
        p.pitch = pitch(w, kind.size())?;
        match kind {
            Float::F32 => product::<F32>(isa, isa, &p),
            Float::F16 => product::<F16>(isa, isa, &p),
            Float::Bf16 => product::<Bf16>(isa, isa, &p),
        }
    }
    Ok(())
}

/// What quantized weights meet: `i16` or `f32`.
pub(crate) fn activations() -> &'static str {
    #[cfg(not(target_arch = "aarch64"))]
    if quantized::wanted(Isa::detect()) {
        return "i16";
    }
    "f32"
}

/// Quantized weights, which meet x in whole numbers of sixteen bits where that is faster, else in f32.
pub(super) unsafe fn affine(isa: Isa, p: &Product, bits: i64, group: i64) -> Outcome {
    #[cfg(not(target_arch = "aarch64"))]
    if quantized::wanted(isa) {
        match (bits, group) {
            (2, 32 | 64 | 128) => quantized::product::<2>(isa, p, group as usize),
            (4, 32 | 64 | 128) => quantized::product::<4>(isa, p, group as usize),
            (8, 32 | 64 | 128) => quantized::product::<8>(isa, p, group as usize),
            _ => return Err(format!("no kernel for {bits} bits in groups of {group}")),
        }
        return Ok(());
    }
    match (bits, group) {
        (2, 32) => product::<Affine<2, 32>>(isa, isa, p),
        (2, 64) => product::<Affine<2, 64>>(isa, isa, p),
        (2, 128) => product::<Affine<2, 128>>(isa, isa, p),
        (4, 32) => product::<Affine<4, 32>>(isa, isa, p),
        (4, 64) => product::<Affine<4, 64>>(isa, isa, p),
        (4, 128) => product::<Affine<4, 128>>(isa, isa, p),
        (8, 32) => product::<Affine<8, 32>>(isa, isa, p),
        (8, 64) => product::<Affine<8, 64>>(isa, isa, p),
        (8, 128) => product::<Affine<8, 128>>(isa, isa, p),
        _ => return Err(format!("no kernel for {bits} bits in groups of {group}")),
    }
    Ok(())
}
