//! Every stated figure that is a number, beside the model, by its role.

use peerlane_report::chart::{Kind, LimitLine, Lines, Look, Values};
use peerlane_sim::reproduce::{Role, Study};

use super::{Plot, series};

pub(super) fn plot() -> Plot {
    let study = Study::built_in().expect("the files are sound");
    let report = study.report(&[]).expect("a report");
    let roles = [Role::Predicted, Role::Fitted, Role::Input, Role::Structural, Role::Excluded];
    let mut lines = Vec::new();
    for (index, role) in roles.into_iter().enumerate() {
        let of_role = report.rows.iter().filter(|row| row.role == role);
        let points = of_role.filter_map(|row| {
            let (stated, predicted) = (row.stated.as_f64()?, row.predicted.as_f64()?);
            (stated > 0.0 && predicted > 0.0).then_some((stated, predicted / stated))
        });
        let mut points: Vec<(f64, f64)> = points.collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        if !points.is_empty() {
            lines.push(series(role.name(), index, Look::Dots, points));
        }
    }
    let limit = |name: &str, y| LimitLine { name: name.to_owned(), y };
    Plot {
        file: "figures.svg",
        title: "Stated figures and what the model says",
        note: format!("{} Fitted and input figures lie at 1 because they were used.", report.count),
        lines: Lines {
            about: "Predicted over stated for every figure, by its role".to_owned(),
            x: ("stated, each in its own unit", Kind::Log10, Values::Times),
            y: ("predicted over stated", Kind::Log2, Values::Times),
            names: Vec::new(),
            series: lines,
            limits: vec![limit("7 % more", 1.07), limit("7 % less", 0.93)],
        },
    }
}
