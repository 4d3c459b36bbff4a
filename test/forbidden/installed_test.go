package forbidden

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/yaml"
	sigsyaml "sigs.k8s.io/yaml"
)

// object is one of a manifest.
type object = map[string]any

// installed calls do with each object of all that is given to a cluster.
func installed(t *testing.T, do func(file string, o object)) {
	t.Helper()
	count := 0
	for _, folder := range []string{"../../dist", "../../bundle", "../../config"} {
		err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".yaml" {
				return err
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for reader := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text))); ; count++ {
				document, err := reader.Read()
				if errors.Is(err, io.EOF) {
					return nil
				} else if err != nil {
					return err
				}
				var o object
				if err := sigsyaml.Unmarshal(document, &o); err != nil {
					return err
				}
				do(path, o)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if count < 50 {
		t.Fatalf("only %d objects were looked at", count)
	}
}

// within calls do with each map in a value, at any depth.
func within(value any, do func(object)) {
	switch value := value.(type) {
	case object:
		do(value)
		for _, inner := range value {
			within(inner, do)
		}
	case []any:
		for _, inner := range value {
			within(inner, do)
		}
	}
}

// O1: what Weft installs calls no webhook: one whose backend needs the network could keep the network from starting. What it checks the API
// server checks by itself, in CEL.
func TestNoWebhookIsInstalled(t *testing.T) {
	installed(t, func(file string, o object) {
		kind, _ := o["kind"].(string)
		if strings.HasSuffix(kind, "WebhookConfiguration") || kind == "APIService" {
			t.Errorf("%s has a %s", file, kind)
		}
		within(o, func(inner object) {
			if definitions, ok := inner["webhookdefinitions"]; ok { // of a ClusterServiceVersion
				t.Errorf("%s has webhooks: %v", file, definitions)
			}
			if strategy, _ := inner["strategy"].(string); kind == "CustomResourceDefinition" && strategy == "Webhook" {
				t.Errorf("%s converts by a webhook", file)
			}
		})
	})
}

// O2: what makes and keeps the network has requests and no limit of memory: the operator's peak grows with the cluster (docs/performance.md), and
// a limit that is enough on one would end it at the first look at a larger one, again and again.
func TestNoContainerHasALimitOfMemory(t *testing.T) {
	containers := 0
	installed(t, func(file string, o object) {
		within(o, func(inner object) {
			resources, ok := inner["resources"].(object)
			if _, container := inner["image"]; !ok || !container {
				return
			}
			containers++
			if limits, ok := resources["limits"].(object); ok && limits["memory"] != nil {
				t.Errorf("%s: container %v has a limit of memory of %v", file, inner["name"], limits["memory"])
			}
			if requests, ok := resources["requests"].(object); !ok || requests["memory"] == nil {
				t.Errorf("%s: container %v asks for no memory", file, inner["name"])
			}
		})
	})
	if containers < 10 {
		t.Errorf("only %d containers were looked at", containers)
	}
}
