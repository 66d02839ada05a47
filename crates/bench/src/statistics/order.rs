//! Order of the runs of all cases.

use super::Random;

/// One run of one case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CaseRun {
    /// Position of the case in its workload.
    pub case: usize,
    /// Number of its counted run, from 0.
    pub repeat: u32,
}

/// The cases in the order of one round; depends on seed, round and number of cases only, so a
/// workload that goes on after an interruption keeps its order.
pub fn round(seed: u64, repeat: u32, cases: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..cases).collect();
    Random::new(Random::new(seed).number() ^ u64::from(repeat)).shuffle(&mut order);
    order
}

/// Every run of every case: each round has one turn for each case, in an order of its own.
///
/// Drift during a workload (heat, a neighbour's load) then touches all cases alike. A case that has
/// been run often enough leaves out its later turns.
pub fn order(seed: u64, cases: usize, repeats: u32) -> impl Iterator<Item = CaseRun> {
    (0..repeats).flat_map(move |repeat| {
        round(seed, repeat, cases).into_iter().map(move |case| CaseRun { case, repeat })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_turn_comes_once_and_round_by_round() {
        let turns: Vec<CaseRun> = order(42, 7, 9).collect();
        let mut sorted = turns.clone();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!((turns.len(), sorted.len()), (63, 63));
        assert!(turns.is_sorted_by_key(|turn| turn.repeat));
    }

    #[test]
    fn rounds_differ_by_number_and_seed() {
        assert_eq!(round(1, 0, 10), round(1, 0, 10));
        assert_ne!(round(1, 0, 10), round(1, 1, 10));
        assert_ne!(round(1, 0, 10), round(2, 0, 10));
    }

    #[test]
    fn every_case_goes_first_equally_often() {
        let mut first = [0; 5];
        for repeat in 0..1000 {
            first[round(9, repeat, 5)[0]] += 1;
        }
        assert!(first.iter().all(|&count| (150..250).contains(&count)), "{first:?}");
    }
}
