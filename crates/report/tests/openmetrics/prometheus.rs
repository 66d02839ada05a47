//! What Prometheus makes of the gauges: every expression of the dashboard has a series, and the alerts fire as tested.

use std::collections::HashSet;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};

use peerlane_fabric::{NetworkLocation, RemoteDrive};
use peerlane_report::machine::openmetrics;
use serde_json::Value;

use crate::served::{DEADLINE, Served, packages};
use crate::{fixture, repository};

/// The programs of Prometheus, or `None` with a skip.
fn program(name: &str) -> Option<PathBuf> {
    let program = packages()?.join("usr/bin").join(name);
    if !program.exists() {
        peerlane_testing::skip("prometheus", "the folder of node_exporter has no Prometheus");
        return None;
    }
    Some(program)
}

/// The gauges of a fixture as node_exporter gives them: with the age of their file, on a machine with a remote drive.
fn exported(name: &str) -> String {
    let mut fabric = fixture(name);
    fabric.remote_drives.push(RemoteDrive {
        name: "nvme90".to_owned(),
        location: NetworkLocation { transport: "rdma".to_owned(), ..NetworkLocation::default() },
        state: Some("live".to_owned()),
        namespaces: Vec::new(),
    });
    let age = "# TYPE node_textfile_mtime_seconds gauge\n\
               node_textfile_mtime_seconds{file=\"/metrics/peerlane.prom\"} 1\n# EOF\n";
    openmetrics(&fabric).replace("# EOF\n", age)
}

/// Answers every request for `/NAME` with the gauges of that fixture, until the test ends; tells each name.
fn serve(fixtures: &[&str]) -> (String, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let texts: Vec<_> = fixtures.iter().map(|name| (format!("/{name} "), exported(name))).collect();
    let (texts, (sender, scraped)) = (Arc::new(texts), mpsc::channel());
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let (texts, sender) = (Arc::clone(&texts), sender.clone());
            std::thread::spawn(move || answer(stream, &texts, &sender));
        }
    });
    (address, scraped)
}

fn answer(mut stream: TcpStream, texts: &[(String, String)], scraped: &Sender<String>) {
    let mut lines = BufReader::new(stream.try_clone().expect("a stream")).lines();
    let request = lines.next().and_then(Result::ok).unwrap_or_default();
    while lines.next().and_then(Result::ok).is_some_and(|line| !line.is_empty()) {}
    let text = texts.iter().find(|(path, _)| request.contains(path)).expect("a fixture");
    let head = "HTTP/1.0 200 OK\r\nContent-Type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n\r\n";
    // Prometheus, or the test, may have ended.
    let _ = stream.write_all(format!("{head}{}", text.1).as_bytes());
    let _ = scraped.send(text.0.clone());
}

/// A running Prometheus that scrapes some fixtures.
struct Server {
    served: Served,
    scraped: Receiver<String>,
}

impl Server {
    fn start(program: &Path, folder: &Path, fixtures: &[&str]) -> Self {
        let (target, scraped) = serve(fixtures);
        let mut configuration = "global: {scrape_interval: 1s}\nscrape_configs:\n".to_owned();
        for name in fixtures {
            configuration += &format!(
                "- {{job_name: {name}, metrics_path: /{name}, static_configs: [{{targets: ['{target}'], \
                 labels: {{instance: {name}}}}}]}}\n"
            );
        }
        let file = folder.join("prometheus.yml");
        std::fs::write(&file, configuration).expect("room");
        let mut command = Command::new(program);
        command.arg(format!("--config.file={}", file.display()));
        command.arg(format!("--storage.tsdb.path={}", folder.join("data").display()));
        Self { served: Served::start(&mut command), scraped }
    }

    /// The series of an expression.
    fn query(&self, expression: &str) -> Vec<Value> {
        let encoded: String = expression.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let answer = self.served.get(&format!("/api/v1/query?query={encoded}"));
        let body = answer.split_once("\r\n\r\n").expect("a body").1;
        let answer: Value = serde_json::from_str(body).expect("JSON");
        assert_eq!(answer["status"], "success", "{expression}: {answer}");
        answer["data"]["result"].as_array().expect("series").clone()
    }

    /// Waits until it has every fixture: what it scraped before it asks once more.
    fn wait_for(&self, fixtures: usize) {
        let (mut once, mut twice) = (HashSet::new(), HashSet::new());
        while twice.len() < fixtures {
            let name = self.scraped.recv_timeout(DEADLINE).expect("Prometheus scrapes");
            if let Some(name) = once.replace(name) {
                twice.insert(name);
            }
        }
    }
}

/// Every expression of the dashboard, by the title of its panel.
fn expressions() -> Vec<(String, String)> {
    let file = repository().join("packaging/grafana/peerlane.json");
    let text = std::fs::read_to_string(file).expect("a dashboard");
    let dashboard: Value = serde_json::from_str(&text).expect("JSON");
    let mut found = Vec::new();
    for panel in dashboard["panels"].as_array().expect("panels") {
        let title = panel["title"].as_str().expect("a title");
        for target in panel["targets"].as_array().expect("targets") {
            let expression = target["expr"].as_str().expect("an expression");
            found.push((title.to_owned(), expression.replace("$instance", ".*")));
        }
    }
    found
}

#[test]
fn every_expression_of_the_dashboard_has_a_series() {
    let Some(program) = program("prometheus") else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let fixtures = ["eight-gpus", "two-sockets", "r7515", "lab-acs", "lab-pair"];
    let server = Server::start(&program, folder.path(), &fixtures);
    server.wait_for(fixtures.len());
    let expressions = expressions();
    assert!(expressions.len() >= 15, "{expressions:?}");
    for (title, expression) in &expressions {
        assert!(!expression.contains('$'), "{title}: {expression}");
        assert!(!server.query(expression).is_empty(), "{title}: {expression} has no series");
    }
    // A gauge that is misspelt has none, so that a series means something.
    assert!(server.query("peerlane_use_pair").is_empty());
    let direct = server.query("sum(peerlane_use_pairs{instance=\"lab-pair\",state=\"direct\"})");
    assert_eq!(direct[0]["value"][1], "3", "{direct:?}");
}

#[test]
fn dashboard_shows_every_gauge() {
    let shown: String = expressions().into_iter().map(|(_, expression)| expression).collect();
    let text = exported("lab-pair");
    for family in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        let name = family.split(' ').next().expect("a name");
        let is_elsewhere = ["peerlane_pair_direct", "peerlane_pairs"].contains(&name);
        assert!(shown.contains(name) || is_elsewhere, "no panel shows {name}");
    }
}

#[test]
fn alerts_fire_as_tested() {
    let Some(promtool) = program("promtool") else { return };
    let folder = repository().join("packaging/prometheus");
    for words in
        [["check", "rules", "peerlane-alerts.yaml"], ["test", "rules", "peerlane-alerts.test.yaml"]]
    {
        let output = Command::new(&promtool)
            .args(words)
            .current_dir(&folder)
            .output()
            .expect("promtool starts");
        let said =
            String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.contains("SUCCESS"), "{words:?}: {said}");
    }
}
