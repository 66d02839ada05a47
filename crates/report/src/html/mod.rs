//! A report as one page: styles, charts and a small script in it, nothing fetched.
//!
//! The page holds everything without the script, which sorts tables and changes light to dark. A policy in
//! its head forbids it to load anything, whatever a record says.

use minijinja::value::Value;
use minijinja::{AutoEscape, Environment, context};

use crate::chart;
use crate::document::{Art, Block, Document, Figure, RecordVerdict, Table, Tone};
use crate::ink::{self, Paper};
use crate::machine;

const PAGE: &str = include_str!("page.jinja");
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// The page.
///
/// # Errors
/// When the template fails, which no record should bring about.
pub(crate) fn write(document: &Document) -> Result<String, minijinja::Error> {
    let mut environment = Environment::new();
    environment.set_auto_escape_callback(|_| AutoEscape::Html);
    environment.add_template("page", PAGE)?;
    let style = [
        ink::variables(),
        chart::style(Paper::Page),
        machine::style(Paper::Page),
        STYLE.to_owned(),
    ]
    .concat();
    let mut number = 0;
    let overview: Vec<Value> =
        document.overview.iter().map(|block| block_value(block, &mut number)).collect();
    let sections: Vec<Value> = document
        .sections
        .iter()
        .enumerate()
        .map(|(index, section)| {
            let blocks: Vec<Value> =
                section.blocks.iter().map(|block| block_value(block, &mut number)).collect();
            context! { id => format!("r{}", index + 1), heading => section.heading.as_str(), blocks }
        })
        .collect();
    let verdicts: Vec<Value> = document
        .verdicts
        .iter()
        .map(|(index, verdict)| {
            let section = document.sections.get(*index).map(|section| section.heading.as_str());
            context! { id => format!("r{}", index + 1), of => section, ..verdict_value(verdict) }
        })
        .collect();
    environment.get_template("page")?.render(context! {
        title => document.title.as_str(),
        style => Value::from_safe_string(style),
        script => Value::from_safe_string(SCRIPT.to_owned()),
        headline => document.headline.as_ref().map(verdict_value),
        has_several => document.headline.is_some(),
        verdicts,
        overview,
        sections,
        version => env!("CARGO_PKG_VERSION"),
    })
}

fn verdict_value(verdict: &RecordVerdict) -> Value {
    context! {
        tone => match verdict.tone {
            Tone::Firm => "firm",
            Tone::Limited => "limited",
            Tone::Bad => "bad",
        },
        basis => verdict.basis,
        text => verdict.text.as_str(),
        more => verdict.more.clone(),
    }
}

fn block_value(block: &Block, number: &mut u32) -> Value {
    match block {
        Block::Facts(facts) => context! { kind => "facts", facts => facts.clone() },
        Block::Text(text) => context! { kind => "text", text => text.as_str() },
        Block::Commands(step, lines) => {
            context! { kind => "commands", step => step.as_str(), lines => lines.clone() }
        }
        Block::Warnings(warnings) => context! { kind => "warnings", warnings => warnings.clone() },
        Block::Figure(figure) => {
            *number += 1;
            figure_value(figure, *number)
        }
        Block::Table(table) => table_value(table),
    }
}

fn figure_value(figure: &Figure, number: u32) -> Value {
    let (svg, kind) = match &figure.art {
        Art::Chart(picture) => (picture.in_page(&figure.title), "chart"),
        Art::Machine { page, .. } => (page.clone(), "machine"),
    };
    context! {
        kind => "figure",
        title => figure.title.as_str(),
        caption => figure.caption.as_str(),
        art => kind,
        number,
        svg => Value::from_safe_string(svg),
    }
}

fn table_value(table: &Table) -> Value {
    let is_number: Vec<bool> = (0..table.columns.len())
        .map(|column| {
            table.rows.iter().any(|row| row.get(column).is_some_and(|cell| cell.sort.is_some()))
        })
        .collect();
    let rows: Vec<Vec<Value>> = table
        .rows
        .iter()
        .map(|row| {
            let cells = row.iter().zip(&is_number);
            cells
                .map(|(cell, is_number)| {
                    let sort = cell.sort.map(|sort| sort.to_string());
                    let link = cell.link.map(|index| format!("r{}", index + 1));
                    context! { text => cell.text.as_str(), sort, link, is_number => *is_number, is_long => cell.text.chars().count() > 24 }
                })
                .collect()
        })
        .collect();
    let columns: Vec<Value> = table
        .columns
        .iter()
        .zip(&is_number)
        .map(|(name, is_number)| context! { name => *name, is_number => *is_number })
        .collect();
    context! { kind => "table", caption => table.caption.as_str(), columns, rows, is_detail => table.is_detail, is_beside => table.is_beside }
}
