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

// object is an object of a manifest.
type object = map[string]any

// installed calls do for each object that an installation applies.
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
		t.Fatalf("only %d objects were checked", count)
	}
}

// within calls do for each map in a value, at any depth.
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

// TestNoWebhookIsInstalled covers failure mode O1. Weft installs no webhook, because a webhook whose backend needs
// the network could block the network's start. The API server itself runs Weft's checks, in CEL.
func TestNoWebhookIsInstalled(t *testing.T) {
	installed(t, func(file string, o object) {
		kind, _ := o["kind"].(string)
		if strings.HasSuffix(kind, "WebhookConfiguration") || kind == "APIService" {
			t.Errorf("%s has a %s", file, kind)
		}
		within(o, func(inner object) {
			if definitions, ok := inner["webhookdefinitions"]; ok { // in a ClusterServiceVersion
				t.Errorf("%s has webhooks: %v", file, definitions)
			}
			if strategy, _ := inner["strategy"].(string); kind == "CustomResourceDefinition" && strategy == "Webhook" {
				t.Errorf("%s converts by a webhook", file)
			}
		})
	})
}

// TestNoContainerHasALimitOfMemory covers failure mode O2. The network's containers have requests but no memory
// limit. The operator's peak grows with the cluster (docs/evidence/performance.md), and a limit that suffices in one cluster
// would kill it repeatedly in a larger one.
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
				t.Errorf("%s: container %v has no memory request", file, inner["name"])
			}
		})
	})
	if containers < 10 {
		t.Errorf("only %d containers were checked", containers)
	}
}
