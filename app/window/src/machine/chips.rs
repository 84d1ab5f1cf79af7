//! Memory bandwidth of Apple's chips by their makers' figures. Source: `spec/fit-and-roofline.md` §7.

/// GB a second of the chip with this name; `None` for chips that are not known. Where a name has variants by graphics
/// cores, the one with the most.
pub fn bandwidth(device: &str) -> Option<f64> {
    let name = device.strip_prefix("Apple ").unwrap_or(device);
    Some(match name.trim() {
        "M1" => 68.0,
        "M2" => 100.0,
        "M3" => 102.0,
        "M4" => 120.0,
        "M5" => 153.0,
        "M1 Pro" | "M2 Pro" => 200.0,
        "M3 Pro" => 150.0,
        "M4 Pro" => 273.0,
        "M5 Pro" => 307.0,
        "M1 Max" | "M2 Max" => 400.0,
        "M3 Max" => 410.0,
        "M4 Max" => 546.0,
        "M5 Max" => 614.0,
        "M1 Ultra" | "M2 Ultra" => 800.0,
        "M3 Ultra" => 819.0,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::bandwidth;

    #[test]
    fn chips_by_name() {
        assert_eq!(bandwidth("Apple M4 Pro"), Some(273.0));
        assert_eq!(bandwidth("Apple M5 Max"), Some(614.0));
        assert_eq!(bandwidth("Apple M9 Quantum"), None);
        assert_eq!(bandwidth("Intel Iris"), None);
    }
}
