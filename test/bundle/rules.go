package bundle

import (
	"encoding/json"
	"fmt"

	"sigs.k8s.io/yaml"
)

// prometheusRules returns the groups of a PrometheusRule as a rule file for Prometheus and promtool.
func prometheusRules(rule []byte) ([]byte, error) {
	var object struct {
		Kind string          `json:"kind"`
		Spec json.RawMessage `json:"spec"`
	}
	if err := yaml.Unmarshal(rule, &object); err != nil {
		return nil, err
	}
	if object.Kind != "PrometheusRule" || len(object.Spec) == 0 {
		return nil, fmt.Errorf("want a PrometheusRule, not a %s", object.Kind)
	}
	text, err := yaml.JSONToYAML(object.Spec)
	return append(
		[]byte(
			"# Made from config/monitoring/rules.yaml by make generate: for a Prometheus without its operator "+
				"(rule_files), and for promtool.\n"), text...), err
}
