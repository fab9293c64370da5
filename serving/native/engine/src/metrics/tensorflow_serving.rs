//! Samples under the names, labels and units of TensorFlow Serving, for dashboards and alerts that were made for it.

use std::collections::BTreeMap;

use tidegate_codec::status::{CODES, Code};

use crate::metrics::answers::{CALLS, Endpoint};
use crate::metrics::histogram::Histogram;
use crate::metrics::prometheus::{REQUEST_COUNT, REQUEST_LATENCY, Samples, escape};
use crate::metrics::registry::Metrics;

impl Metrics {
    /// What came through sockets, all versions of a model together. A method is written as its endpoint spells it.
    pub fn tensorflow_serving_samples(&self, list: &mut impl Samples) {
        let mut models = BTreeMap::<String, Vec<_>>::new();
        for ((model, _), metrics) in self.of(None, None) {
            models.entry(model).or_default().push(metrics);
        }
        let sockets = [(Endpoint::Grpc, "GRPC"), (Endpoint::Rest, "REST")];
        count(list, "", &self.unrouted.by_endpoint()[..sockets.len()]);
        for (model, versions) in &models {
            let model = escape(model);
            let answers: Vec<_> =
                versions.iter().flat_map(|version| version.answers().into_iter().take(sockets.len())).collect();
            count(list, &model, &answers);
            let signatures: Vec<_> = versions.iter().flat_map(|version| version.signatures()).collect();
            for (endpoint, entrypoint) in sockets {
                for (call, method) in CALLS.iter().enumerate() {
                    let times = signatures.iter().map(|(_, times)| &times.whole[endpoint as usize][call]);
                    if times.clone().all(|histogram| histogram.spent().count == 0) {
                        continue;
                    }
                    let api = if endpoint == Endpoint::Rest { method.to_lowercase() } else { (*method).to_owned() };
                    let labels = format!("model_name=\"{model}\",API=\"{api}\",entrypoint=\"{entrypoint}\"");
                    Histogram::samples_of(times, list, REQUEST_LATENCY, &labels, 1e-3);
                }
            }
        }
    }
}

fn count(list: &mut impl Samples, model: &str, answers: &[[u64; CODES]]) {
    for code in 0..CODES {
        let count: u64 = answers.iter().map(|by_code| by_code[code]).sum();
        if count > 0 {
            let status = Code::from_number(code as i64).name();
            list.add(REQUEST_COUNT, "", format_args!("model_name=\"{model}\",status=\"{status}\""), count as f64);
        }
    }
}
