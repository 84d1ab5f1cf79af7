/// How a tensor's elements are stored. Numbers are those of `ggml_type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DType {
    F32,
    F16,
    BF16,
    /// 32 elements: f16 scale, 16 bytes of nibbles; `w = d·(q − 8)`.
    Q4_0,
    /// 32 elements: f16 scale and minimum, 16 bytes of nibbles; `w = d·q + m`.
    Q4_1,
    /// 32 elements: f16 scale, 32 signed bytes; `w = d·q`.
    Q8_0,
    /// A type that exists but cannot be repacked exactly (its `ggml_type` number).
    Other(u32),
}

/// Names of `ggml_type` by number, to refuse a type by the name people know it under.
const NAMES: &[(u32, &str)] = &[
    (0, "F32"),
    (1, "F16"),
    (2, "Q4_0"),
    (3, "Q4_1"),
    (6, "Q5_0"),
    (7, "Q5_1"),
    (8, "Q8_0"),
    (9, "Q8_1"),
    (10, "Q2_K"),
    (11, "Q3_K"),
    (12, "Q4_K"),
    (13, "Q5_K"),
    (14, "Q6_K"),
    (15, "Q8_K"),
    (16, "IQ2_XXS"),
    (17, "IQ2_XS"),
    (18, "IQ3_XXS"),
    (19, "IQ1_S"),
    (20, "IQ4_NL"),
    (21, "IQ3_S"),
    (22, "IQ2_S"),
    (23, "IQ4_XS"),
    (24, "I8"),
    (25, "I16"),
    (26, "I32"),
    (27, "I64"),
    (28, "F64"),
    (29, "IQ1_M"),
    (30, "BF16"),
    (34, "TQ1_0"),
    (35, "TQ2_0"),
    (39, "MXFP4"),
    (40, "NVFP4"),
];

impl DType {
    pub(crate) fn from_ggml(number: u32) -> Self {
        match number {
            0 => Self::F32,
            1 => Self::F16,
            30 => Self::BF16,
            2 => Self::Q4_0,
            3 => Self::Q4_1,
            8 => Self::Q8_0,
            other => Self::Other(other),
        }
    }

    pub fn name(self) -> String {
        let number = match self {
            Self::F32 => 0,
            Self::F16 => 1,
            Self::BF16 => 30,
            Self::Q4_0 => 2,
            Self::Q4_1 => 3,
            Self::Q8_0 => 8,
            Self::Other(number) => number,
        };
        NAMES
            .iter()
            .find(|(n, _)| *n == number)
            .map_or_else(|| format!("ggml type {number}"), |(_, name)| (*name).to_owned())
    }

    /// Elements per block; 1 for the float types, none where unknown.
    pub(crate) fn block(self) -> Option<u64> {
        match self {
            Self::F32 | Self::F16 | Self::BF16 => Some(1),
            Self::Q4_0 | Self::Q4_1 | Self::Q8_0 => Some(32),
            Self::Other(_) => None,
        }
    }

    /// Bytes per block.
    pub(crate) fn block_bytes(self) -> Option<u64> {
        match self {
            Self::F32 => Some(4),
            Self::F16 | Self::BF16 => Some(2),
            Self::Q4_0 => Some(18),
            Self::Q4_1 => Some(20),
            Self::Q8_0 => Some(34),
            Self::Other(_) => None,
        }
    }

    /// Bytes of one row of `width` elements; none where the width is not whole blocks or the type is unknown.
    pub(crate) fn row_bytes(self, width: u64) -> Option<u64> {
        let block = self.block()?;
        width.is_multiple_of(block).then_some(())?;
        (width / block).checked_mul(self.block_bytes()?)
    }
}
