//! The page of a router's metrics: what an engine says of connections and requests, and each model as it is forwarded.

use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_engine::metrics::{Page, Samples, escape};

use crate::lane::Shared;

const HELP: [(&str, &str); 7] = [
    ("tidegate_router_requests_total", "Requests that named a model."),
    ("tidegate_router_errors_total", "Requests that were not answered with success, by model."),
    ("tidegate_router_retried_total", "Requests that a second node was asked for, because the first did not answer."),
    (
        "tidegate_router_hedged_total",
        "Requests of which a second copy went to another node, because the first took long.",
    ),
    ("tidegate_router_last_used_seconds", "When the last request for a model came, in seconds since 1970."),
    ("tidegate_router_model_nodes", "Nodes that a model is on."),
    ("tidegate_router_outstanding_requests", "Requests that a node works on for this router."),
];

/// The whole page in Prometheus' text format.
pub fn render(shared: &Shared) -> String {
    let mut page = Page::default();
    let load = |count: &AtomicU64| count.load(Ordering::Relaxed) as f64;
    let routes = shared.routes.load();
    for model in routes.models() {
        let label = format!("model=\"{}\"", escape(&model.name));
        let counts = &model.counts;
        let mut add = |name, value| page.add(name, "", format_args!("{label}"), value);
        add("tidegate_router_requests_total", load(&counts.requests));
        add("tidegate_router_errors_total", load(&counts.errors));
        add("tidegate_router_retried_total", load(&counts.retried));
        add("tidegate_router_hedged_total", load(&counts.hedged));
        add("tidegate_router_last_used_seconds", counts.last_used());
        add("tidegate_router_model_nodes", model.copies.len() as f64);
    }
    for node in routes.nodes() {
        let label = format_args!("node=\"{}\"", escape(&node.id)).to_string();
        page.add("tidegate_router_outstanding_requests", "", format_args!("{label}"), node.outstanding() as f64);
    }
    let help = |family: &str| HELP.iter().find(|(name, _)| *name == family).map_or("", |(_, help)| help).to_owned();
    shared.state.engine.render_metrics(false) + &page.finish(help)
}
