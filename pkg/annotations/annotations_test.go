package annotations

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

func TestFindings(t *testing.T) {
	for name, c := range map[string]struct {
		kind string
		all  map[string]string
		want []string // parts of the message of each finding
	}{
		"nothing": {"Pod", map[string]string{"example.com/ip-pol": "a", "kubectl.kubernetes.io/x": "b", "weft.dev": "c"},
			nil},
		"every known": {"Pod", map[string]string{networkv1alpha1.IPPoolAnnotation: "a", networkv1alpha1.ReleasePolicyAnnotation: "Never"},
			nil},
		"singular": {"Service", map[string]string{"weft.dev/load-balancer-ip": "a"},
			[]string{"did you mean weft.dev/load-balancer-ips?"}},
		"another domain": {"Service", map[string]string{"network.weft.dev/load-balancer-ips": "a"},
			[]string{"did you mean weft.dev/load-balancer-ips?"}},
		"no such domain": {"Pod", map[string]string{"net.weft.dev/ip-pool": "a"},
			[]string{"did you mean network.weft.dev/ip-pool?"}},
		"a letter": {"Pod", map[string]string{"network.weft.dev/ip-release-polcy": "Never"},
			[]string{"mean network.weft.dev/ip-release-policy?"}},
		"nothing near": {"Pod", map[string]string{"network.weft.dev/colour": "a"},
			[]string{"Weft has no annotation network.weft.dev/colour"}},
		"a name that no namespace has": {"Service", map[string]string{networkv1alpha1.SharedIPNamespacesAnnotation: "a, B_"},
			[]string{`"B_" is neither the name of a namespace nor "*"`}},
		"not a boolean": {"Service", map[string]string{networkv1alpha1.IdleAnnotation: "yes"},
			[]string{`"yes" is neither "true" nor "false"`}},
		"another kind": {"Pod", map[string]string{networkv1alpha1.MulticastAnnotation: "true"},
			[]string{"no effect on a Pod, only on a Namespace"}},
		"a label": {"Node", map[string]string{networkv1alpha1.EgressAssignableLabel: ""},
			[]string{"is a label, not an annotation"}},
		"a policy": {"Pod", map[string]string{networkv1alpha1.IPPoolAnnotation: "a", networkv1alpha1.ReleasePolicyAnnotation: "Nevr"},
			[]string{`"Nevr"`}},
		"of our own workload": {"Pod", map[string]string{"network.weft.dev/revision": "1", "network.weft.dev/settings": "a"}, nil},
		"two, sorted": {"Pod", map[string]string{"weft.dev/b": "", "network.weft.dev/requested-ip": ""},
			[]string{"mean network.weft.dev/requested-ips?", "no annotation weft.dev/b"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := Of(c.kind, c.all)
			if len(got) != len(c.want) {
				t.Fatalf("findings %+v, want %d", got, len(c.want))
			}
			for i, part := range c.want {
				if !strings.Contains(got[i].Message, part) || got[i].Reported != (name == "a policy" || name == "a name that no namespace has") {
					t.Errorf("finding %+v, want %q", got[i], part)
				}
			}
		})
	}
}

// Each constant of an annotation in Weft's domains is known.
func TestEveryAnnotationIsKnown(t *testing.T) {
	declared := map[string]string{}
	for _, root := range []string{"../../apis", "../../pkg", "../../controllers"} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if spec, ok := n.(*ast.ValueSpec); ok {
					for i, name := range spec.Names {
						if text := textOf(spec, i); strings.Contains(name.Name, "Annotation") && isOurs(text) {
							declared[name.Name] = text
						}
					}
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(declared) < 30 {
		t.Fatalf("found %d annotations", len(declared))
	}
	for name, text := range declared {
		if _, ok := known[text]; !ok {
			t.Errorf("%s, %s, is not in the table", name, text)
		}
	}
}

// textOf returns the text of a constant: a literal, or GroupName + a literal.
func textOf(spec *ast.ValueSpec, i int) string {
	if i >= len(spec.Values) {
		return ""
	}
	prefix, value := "", spec.Values[i]
	if sum, ok := value.(*ast.BinaryExpr); ok {
		prefix, value = networkv1alpha1.GroupName, sum.Y
	}
	literal, ok := value.(*ast.BasicLit)
	if !ok {
		return ""
	}
	text, err := strconv.Unquote(literal.Value)
	if err != nil {
		return ""
	}
	return prefix + text
}
