//! Solvers of the active classes of a part: as transfers end, the part shrinks and falls apart.
//!
//! Leaves out transfers; classes have counts here. A part of few classes keeps its first solver, so
//! that its rates do not depend on when others are dropped.

use super::super::network::{Class, FlowNetwork, NONE, ResourceVisit};
use super::super::parts::{NetworkPart, PartView, Parts};
use super::super::solve::{Solver, SolverSettings};

/// Number of classes up to which all are solved together, idle ones, too.
const FEW: usize = 256;

/// Connected classes with their solver.
struct ActiveGroup {
    solver: Solver,
    /// Numbers of its classes and resources in the part.
    classes: Vec<usize>,
    resources: Vec<usize>,
    is_changed: bool,
}

/// The rates of a part.
pub(super) struct Active<'a> {
    view: PartView<'a>,
    groups: Vec<ActiveGroup>,
    /// The group of each class of the part; `None` where it was dropped.
    group_of: Vec<Option<usize>>,
    counts: Vec<u32>,
    /// By class, the rate of each of its flows, and the limiting resource of the part.
    pub(super) rates: Vec<f64>,
    pub(super) limits: Vec<Option<u32>>,
    /// The residual of each group.
    residuals: Vec<f64>,
}

impl<'a> Active<'a> {
    /// A part without active flows.
    pub(super) fn new(view: PartView<'a>) -> Self {
        let (classes, resources) = (view.part.first.len(), view.part.resources.len());
        let mut solver = Solver::of_part(view);
        (0..classes).for_each(|class| solver.set_count(class, 0));
        let whole = ActiveGroup {
            solver,
            classes: (0..classes).collect(),
            resources: (0..resources).collect(),
            is_changed: false,
        };
        Self {
            view,
            groups: vec![whole],
            group_of: vec![Some(0); classes],
            counts: vec![0; classes],
            rates: vec![0.0; classes],
            limits: vec![None; classes],
            residuals: vec![0.0],
        }
    }

    /// Sets the number of flows of a class.
    pub(super) fn set_count(&mut self, class: usize, count: u32) {
        if let Some(group) = self.group_of[class].filter(|_| self.counts[class] != count) {
            self.groups[group].is_changed = true;
            self.counts[class] = count;
        }
    }

    /// Drops finished classes once they are a quarter of all that is solved; `is_over` tells of an idle class that it is
    /// finished.
    pub(super) fn forget(&mut self, is_over: impl Fn(usize) -> bool) {
        let solved: usize = self.groups.iter().map(|group| group.classes.len()).sum();
        let is_left = |&class: &usize| self.counts[class] > 0 || !is_over(class);
        let all = self.groups.iter().flat_map(|group| group.classes.iter().copied());
        let mut left: Vec<usize> = all.filter(is_left).collect();
        if solved <= FEW || 4 * left.len() > 3 * solved {
            return;
        }
        left.sort_unstable();
        self.group_of.fill(None);
        let network = only(self.view, &left);
        let parts = Parts::new(&network);
        let group = |(number, part): (usize, &NetworkPart)| {
            let classes: Vec<usize> = part.first.iter().map(|&class| left[class]).collect();
            classes.iter().for_each(|&class| self.group_of[class] = Some(number));
            let solver = Solver::of_part(parts.view(part));
            ActiveGroup { solver, classes, resources: part.resources.clone(), is_changed: true }
        };
        self.groups = parts.parts.iter().enumerate().map(group).collect();
        self.residuals = vec![0.0; self.groups.len()];
    }

    /// Solves groups whose counts have changed. Returns the number of solutions.
    pub(super) fn solve(&mut self, settings: SolverSettings) -> u64 {
        let mut solutions = 0;
        for (group, residual) in self.groups.iter_mut().zip(&mut self.residuals) {
            if !std::mem::take(&mut group.is_changed) {
                continue;
            }
            for (at, &class) in group.classes.iter().enumerate() {
                group.solver.set_count(at, self.counts[class]);
            }
            let found = group.solver.solve(settings);
            for (at, &class) in group.classes.iter().enumerate() {
                self.rates[class] = found.rates[at];
                let limit = found.limits[at].map(|limit| group.resources[limit as usize]);
                self.limits[class] = limit.and_then(|limit| u32::try_from(limit).ok());
            }
            *residual = found.residual;
            solutions += 1;
        }
        solutions
    }

    /// Largest residual of the present rates.
    pub(super) fn residual(&self) -> f64 {
        self.residuals.iter().copied().fold(0.0, f64::max)
    }
}

/// A network of some classes of a part with all its resources.
fn only(view: PartView<'_>, classes: &[usize]) -> FlowNetwork {
    let local = |resource| if resource == NONE { NONE } else { view.local(resource) };
    let hop = |hop: &ResourceVisit| ResourceVisit {
        resource: local(hop.resource),
        port: local(hop.port),
        ..*hop
    };
    let class = |&class: &usize| {
        let class = view.class(class);
        Class {
            legs: class.legs.iter().map(|leg| leg.iter().map(hop).collect()).collect(),
            priority: class
                .priority
                .iter()
                .map(|&(resource, cost)| (local(resource), cost))
                .collect(),
            ..class.clone()
        }
    };
    FlowNetwork {
        resources: view.resources().collect(),
        classes: classes.iter().map(class).collect(),
    }
}
