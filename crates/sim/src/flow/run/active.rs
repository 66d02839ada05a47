//! The solver of the active classes of a part.
//!
//! Leaves out transfers; classes have counts here. The one thing to know: the solver begins anew without finished classes
//! once they are half of a large part.

use super::super::network::{Class, Hop, NONE, Network};
use super::super::parts::{Parts, View};
use super::super::solve::{Settings, Solver};

/// Number of classes up to which all are solved together, idle ones, too.
const FEW: usize = 256;

/// The rates of a part.
pub(super) struct Active<'a> {
    view: View<'a>,
    solver: Solver,
    /// The classes of the part that are solved, in the order of the solver.
    solved: Vec<usize>,
    counts: Vec<u32>,
    is_changed: bool,
    /// By class, the rate of each of its flows, and the limiting resource of the part.
    pub(super) rates: Vec<f64>,
    pub(super) limits: Vec<Option<u32>>,
    /// Residual of the present rates.
    pub(super) residual: f64,
}

impl<'a> Active<'a> {
    /// A part without active flows.
    pub(super) fn new(view: View<'a>) -> Self {
        let classes = view.part.first.len();
        let mut solver = Solver::of_part(view);
        (0..classes).for_each(|class| solver.set_count(class, 0));
        Self {
            view,
            solver,
            solved: (0..classes).collect(),
            counts: vec![0; classes],
            is_changed: false,
            rates: vec![0.0; classes],
            limits: vec![None; classes],
            residual: 0.0,
        }
    }

    /// Sets the number of flows of a class.
    pub(super) fn set_count(&mut self, class: usize, count: u32) {
        self.is_changed |= self.counts[class] != count;
        self.counts[class] = count;
    }

    /// Drops finished classes once they are half of all that is solved; `is_over` tells of an idle class that it is
    /// finished.
    pub(super) fn forget(&mut self, is_over: impl Fn(usize) -> bool) {
        let is_left = |&class: &usize| self.counts[class] > 0 || !is_over(class);
        let left: Vec<usize> = self.solved.iter().copied().filter(is_left).collect();
        if self.solved.len() <= FEW || 2 * left.len() > self.solved.len() {
            return;
        }
        let network = self.only(&left);
        let whole = Parts::whole(&network);
        self.solver = Solver::of_part(whole.view(&whole.parts[0]));
        self.solved = left;
    }

    /// Solves the part if counts have changed.
    pub(super) fn solve(&mut self, settings: Settings) {
        if !std::mem::take(&mut self.is_changed) {
            return;
        }
        for (at, &class) in self.solved.iter().enumerate() {
            self.solver.set_count(at, self.counts[class]);
        }
        let found = self.solver.solve(settings);
        for (at, &class) in self.solved.iter().enumerate() {
            (self.rates[class], self.limits[class]) = (found.rates[at], found.limits[at]);
        }
        self.residual = found.residual;
    }

    /// The network of some classes with all resources of the part.
    fn only(&self, classes: &[usize]) -> Network {
        let view = self.view;
        let local = |resource| if resource == NONE { NONE } else { view.local(resource) };
        let hop = |hop: &Hop| Hop { resource: local(hop.resource), port: local(hop.port), ..*hop };
        let class = |&class: &usize| {
            let class = view.class(class);
            Class {
                legs: class.legs.iter().map(|leg| leg.iter().map(hop).collect()).collect(),
                priority: class.priority.iter().map(|&(at, cost)| (local(at), cost)).collect(),
                ..class.clone()
            }
        };
        let classes = classes.iter().map(class).collect();
        Network { resources: view.resources().collect(), classes }
    }
}
