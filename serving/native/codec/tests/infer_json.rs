//! Infer requests in JSON as clients with typed requests write them.

use tidegate_codec::open_inference::json_request::parse;

#[test]
fn a_null_is_a_member_that_was_left_out() {
    let typed = r#"{"id":null,"model_name":null,"parameters":null,"outputs":null,"inputs":[{"name":"x","shape":[1],
        "datatype":"FP32","parameters":null,"data":[1]}]}"#;
    assert_eq!(parse(typed.as_bytes(), typed.len()).unwrap().id, "");
    let output = r#"{"inputs":[],"outputs":[{"name":"y","parameters":null}],"parameters":{"signature_name":null,
        "binary_data_output":null,"priority":null,"timeout":null,"sequence_id":null}}"#;
    let request = parse(output.as_bytes(), output.len()).unwrap();
    assert_eq!((&*request.signature_name, request.priority, request.timeout_us), ("", 0, 0));
    for (body, said) in [
        (r#"{"inputs":null}"#, "'inputs' is null: send a list"),
        (r#"{"inputs":[{"name":null}]}"#, "'name' is null: send a string"),
        (r#"{"id":nil,"inputs":[]}"#, "'id' is nil,\"inputs\":[]}: send a string"),
    ] {
        assert_eq!(parse(body.as_bytes(), body.len()).unwrap_err().message, said);
    }
}
