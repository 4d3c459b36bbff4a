package watch

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"
	"sigs.k8s.io/yaml"
)

// factorLabel distinguishes alerts with the same name that are evaluated with different durations.
const factorLabel = "divided_by"

// divide writes a rule file with all durations divided, and returns its path.
func divide(rules, dir string, factor int) (path string, err error) {
	var file struct {
		Groups []map[string]any `json:"groups"`
	}
	text, err := os.ReadFile(rules)
	if err != nil {
		return "", err
	}
	if err := yaml.UnmarshalStrict(text, &file); err != nil {
		return "", fmt.Errorf("%s: %w", rules, err)
	}
	for _, group := range file.Groups {
		group["labels"] = map[string]string{factorLabel: strconv.Itoa(factor)}
		list, _ := group["rules"].([]any)
		for _, rule := range list {
			if err := divideRule(rule, factor); err != nil {
				return "", fmt.Errorf("%s: %w", rules, err)
			}
		}
	}
	if text, err = yaml.Marshal(file); err != nil {
		return "", err
	}
	path = filepath.Join(dir, fmt.Sprintf("rules-%d.yaml", factor))
	return path, os.WriteFile(path, text, 0o600)
}

func divideRule(rule any, factor int) error {
	fields, _ := rule.(map[string]any)
	text, _ := fields["expr"].(string)
	expr, err := parser.ParseExpr(text)
	if err != nil {
		return fmt.Errorf("%v: %w", fields["alert"], err)
	}
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		divideNode(node, time.Duration(factor))
		return nil
	})
	fields["expr"] = expr.String()
	for _, field := range []string{"for", "keep_firing_for"} {
		if text, ok := fields[field].(string); ok {
			whole, err := model.ParseDuration(text)
			if err != nil {
				return fmt.Errorf("%v: %s: %w", fields["alert"], field, err)
			}
			fields[field] = (whole / model.Duration(factor)).String()
		}
	}
	return nil
}

// divideNode divides the durations in a node of an expression. The rules do not use computed durations, an
// experimental feature of Prometheus.
func divideNode(node parser.Node, factor time.Duration) {
	switch n := node.(type) {
	case *parser.MatrixSelector:
		n.Range /= factor
	case *parser.VectorSelector:
		n.OriginalOffset /= factor
	case *parser.SubqueryExpr:
		n.Range, n.Step, n.OriginalOffset = n.Range/factor, n.Step/factor, n.OriginalOffset/factor
	}
}
