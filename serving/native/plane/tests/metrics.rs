//! The metrics page under the names of TensorFlow Serving, beside its own.

use crate::support::{Model, Running, eventually, publish, scalar_signature, settings};
use tidegate_plane::settings::Settings;

#[test]
fn metrics_have_tensorflow_servings_names_where_there_is_a_path_for_them() {
    let page = |metrics_path| {
        let running = Running::start(&Settings { metrics_path, ..settings() });
        running.plane.apply(vec![publish("m", 1, &Model::half_plus_two(), scalar_signature())]).unwrap();
        running.plane.apply(vec![publish("m", 2, &Model::half_plus_two(), scalar_signature())]).unwrap();
        let mut rest = running.rest();
        for (path, body) in [
            ("m", r#"{"instances":["a"]}"#),
            ("m/versions/1", "{\"instances\":[1]}"),
            ("m", "{\"instances\":[1]}"),
            ("x", r#"{"instances":[1]}"#),
        ] {
            rest.post(&format!("/v1/models/{path}:predict"), body);
        }
        let both = "tidegate_model_request_seconds_count{model=\"m\",version=\"2\",signature=\"serving_default\"} 1\n";
        let one = both.replace("version=\"2\"", "version=\"1\"");
        let counted = |page: &str| page.contains(both) && page.contains(&one);
        eventually("a batch is counted after its answers", || counted(&running.rest().get("/metrics").body));
        rest.get("/metrics").body
    };
    assert!(!page(None).contains(":tensorflow:"));
    let page = page(Some("/monitoring/prometheus/metrics".to_owned()));
    for sample in [
        "# TYPE :tensorflow:serving:request_count counter",
        ":tensorflow:serving:request_count{model_name=\"m\",status=\"OK\"} 2",
        ":tensorflow:serving:request_count{model_name=\"m\",status=\"INVALID_ARGUMENT\"} 1",
        ":tensorflow:serving:request_count{model_name=\"\",status=\"NOT_FOUND\"} 1",
        "# TYPE :tensorflow:serving:request_latency histogram",
        ":tensorflow:serving:request_latency_bucket{model_name=\"m\",API=\"predict\",entrypoint=\"REST\",le=\"+Inf\"} 2",
        ":tensorflow:serving:request_latency_count{model_name=\"m\",API=\"predict\",entrypoint=\"REST\"} 2",
    ] {
        assert!(page.contains(&format!("{sample}\n")), "{sample}\n{page}");
    }
}
