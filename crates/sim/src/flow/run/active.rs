//! The solvers of what is still active of a part of a network: as transfers end, it becomes smaller, and falls apart.
//!
//! Leaves out transfers; classes have counts here. The one thing to know: a part of few classes keeps the solver that it
//! began with, so that its rates do not depend on when others are forgotten.

use super::super::network::{Class, Hop, NONE, Network};
use super::super::parts::{Part, Parts, View};
use super::super::solve::{Settings, Solver};

/// Classes up to which all are solved together, also those of which nothing is left.
const FEW: usize = 256;

/// Classes that are connected, with their solver.
struct Group {
    solver: Solver,
    /// For each of its classes and resources, the number in the part.
    classes: Vec<usize>,
    resources: Vec<usize>,
    is_changed: bool,
}

/// What is solved of a part, and what was found.
pub(super) struct Active<'a> {
    view: View<'a>,
    groups: Vec<Group>,
    /// For each class of the part, its group; nothing where it was forgotten.
    group_of: Vec<Option<usize>>,
    counts: Vec<u32>,
    /// For each class, the rate of each of its flows, and what limits it, as a resource of the part.
    pub(super) rates: Vec<f64>,
    pub(super) limits: Vec<Option<u32>>,
    /// The residual of each group.
    residuals: Vec<f64>,
}

impl<'a> Active<'a> {
    /// A part of which nothing is active so far.
    pub(super) fn new(view: View<'a>) -> Self {
        let (classes, resources) = (view.part.first.len(), view.part.resources.len());
        let mut solver = Solver::of_part(view);
        (0..classes).for_each(|class| solver.set_count(class, 0));
        let whole = Group {
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

    /// Says how many flows of a class there are from now on.
    pub(super) fn set_count(&mut self, class: usize, count: u32) {
        if let Some(group) = self.group_of[class].filter(|_| self.counts[class] != count) {
            self.groups[group].is_changed = true;
            self.counts[class] = count;
        }
    }

    /// Forgets classes to which nothing comes any more where they are a quarter of what is solved: `is_over` says it of one
    /// of which there is nothing now.
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
        let parts = Parts::of(&network);
        let group = |(number, part): (usize, &Part)| {
            let classes: Vec<usize> = part.first.iter().map(|&class| left[class]).collect();
            classes.iter().for_each(|&class| self.group_of[class] = Some(number));
            let solver = Solver::of_part(parts.view(part));
            Group { solver, classes, resources: part.resources.clone(), is_changed: true }
        };
        self.groups = parts.parts.iter().enumerate().map(group).collect();
        self.residuals = vec![0.0; self.groups.len()];
    }

    /// Finds rates anew where counts have changed. Says how many solutions that took.
    pub(super) fn solve(&mut self, settings: Settings) -> u64 {
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

    /// The largest residual of the rates of now.
    pub(super) fn residual(&self) -> f64 {
        self.residuals.iter().copied().fold(0.0, f64::max)
    }
}

/// Some classes of a part as a network with all resources of the part.
fn only(view: View<'_>, classes: &[usize]) -> Network {
    let local = |resource| if resource == NONE { NONE } else { view.local(resource) };
    let hop = |hop: &Hop| Hop { resource: local(hop.resource), port: local(hop.port), ..*hop };
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
    Network { resources: view.resources().collect(), classes: classes.iter().map(class).collect() }
}
