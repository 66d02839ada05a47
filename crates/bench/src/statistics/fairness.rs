//! Fairness of flows that share a resource.

/// Jain's index of fairness: 1 when all rates are equal, 1 over their number when one has everything.
///
/// `None` without rates, and where none is above zero. Source: Jain, Chiu, Hawe, "A Quantitative
/// Measure of Fairness and Discrimination for Resource Allocation in Shared Computer Systems", DEC
/// research report TR-301, 1984.
pub fn jain(rates: &[f64]) -> Option<f64> {
    let sum: f64 = rates.iter().sum();
    let squares: f64 = rates.iter().map(|rate| rate * rate).sum();
    let index = sum * sum / (rates.len() as f64 * squares);
    (squares > 0.0 && index.is_finite()).then_some(index)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fairness_falls_from_equal_to_single() {
        assert_eq!(jain(&[3.0; 8]), Some(1.0));
        assert_eq!(jain(&[5.0, 0.0, 0.0, 0.0]), Some(0.25));
        assert!((jain(&[1.0, 3.0]).unwrap() - 0.8).abs() < 1e-12);
        assert_eq!(jain(&[]), None);
        assert_eq!(jain(&[0.0, 0.0]), None);
    }
}
