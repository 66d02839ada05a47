//! The verdict of all evidence on the route.

use peerlane_results::{RouteEvidence, RouteVerdict};

/// The verdict on one run. The rule:
///
/// 1. One source that contradicts the route is enough: contradicted.
/// 2. Else one source that excludes the other route is enough: shown.
/// 3. Else one source that fits the route: consistent, however many there are, since sources that would
///    all fit the other route, too, do not add up to an exclusion.
/// 4. Else nothing is known: silent.
pub fn verdict(evidence: &[RouteEvidence]) -> RouteVerdict {
    // The order of the verdicts is that of the rule.
    evidence.iter().map(|item| item.says).max().unwrap_or(RouteVerdict::NotKnown)
}

/// The verdict on several runs: contradicted when one is, else that of the least certain run.
pub fn least_certain(verdicts: impl IntoIterator<Item = RouteVerdict>) -> RouteVerdict {
    let worse = |left: RouteVerdict, right: RouteVerdict| {
        let wrong = RouteVerdict::Contradicted;
        if left == wrong || right == wrong { wrong } else { left.min(right) }
    };
    verdicts.into_iter().reduce(worse).unwrap_or(RouteVerdict::NotKnown)
}

#[cfg(test)]
mod tests {
    use RouteVerdict::{Consistent, Contradicted, NotKnown, Shown};

    use super::*;

    fn from_verdicts(says: &[RouteVerdict]) -> RouteVerdict {
        let items: Vec<_> = says.iter().map(|&one| crate::says(one, "", "")).collect();
        verdict(&items)
    }

    #[test]
    fn one_contradiction_outweighs_everything() {
        assert_eq!(from_verdicts(&[Shown, Shown, Contradicted, Consistent]), Contradicted);
    }

    #[test]
    fn consistent_sources_never_show_route() {
        assert_eq!(from_verdicts(&[Consistent, Consistent, Consistent, NotKnown]), Consistent);
        assert_eq!(from_verdicts(&[NotKnown, Shown]), Shown);
        assert_eq!(from_verdicts(&[NotKnown]), NotKnown);
        assert_eq!(from_verdicts(&[]), NotKnown);
    }

    #[test]
    fn least_certain_run_decides() {
        assert_eq!(least_certain([Shown, Consistent, Shown]), Consistent);
        assert_eq!(least_certain([Shown, NotKnown]), NotKnown);
        assert_eq!(least_certain([Shown, Contradicted, NotKnown]), Contradicted);
        assert_eq!(least_certain([]), NotKnown);
    }
}
