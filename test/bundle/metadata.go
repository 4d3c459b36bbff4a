package bundle

import (
	"fmt"
	"io/fs"
	"strings"

	"github.com/operator-framework/api/pkg/apis/scorecard/v1alpha3"
)

// label is a label of the bundle's image and of metadata/annotations.yaml.
type label struct{ name, value string }

// labels describe the bundle and where its files are in the image.
var labels = []label{
	{"operators.operatorframework.io.bundle.mediatype.v1", "registry+v1"},
	{"operators.operatorframework.io.bundle.manifests.v1", "manifests/"},
	{"operators.operatorframework.io.bundle.metadata.v1", "metadata/"},
	{"operators.operatorframework.io.bundle.package.v1", "weft"},
	{"operators.operatorframework.io.bundle.channels.v1", "candidate"},
	{"operators.operatorframework.io.bundle.channel.default.v1", "candidate"},
	{"operators.operatorframework.io.test.mediatype.v1", "scorecard+v1"},
	{"operators.operatorframework.io.test.config.v1", "tests/scorecard/"},
}

// scorecardImage contains the tests of operator-sdk's scorecard.
const scorecardImage = "quay.io/operator-framework/scorecard-test:v1.42.0"

// scorecardTests are all its tests: suite -> test.
var scorecardTests = []label{
	{"basic", "basic-check-spec"},
	{"olm", "olm-bundle-validation"},
	{"olm", "olm-crds-have-validation"},
	{"olm", "olm-crds-have-resources"},
	{"olm", "olm-spec-descriptors"},
	{"olm", "olm-status-descriptors"},
}

func addMetadata(_ fs.FS, files map[string][]byte) error {
	annotations := map[string]string{}
	dockerfile := []string{"# Made by make generate. The bundle's image: docker build -f bundle.Dockerfile .", "FROM scratch"}
	for _, l := range labels {
		annotations[l.name] = l.value
		dockerfile = append(dockerfile, fmt.Sprintf("LABEL %s=%s", l.name, l.value))
	}
	for _, folder := range []string{"manifests", "metadata", "tests/scorecard"} {
		dockerfile = append(dockerfile, fmt.Sprintf("COPY bundle/%s /%s/", folder, folder))
	}
	files["bundle.Dockerfile"] = []byte(strings.Join(dockerfile, "\n") + "\n")
	var err error
	if files["bundle/metadata/annotations.yaml"], err = marshal(map[string]any{"annotations": annotations}); err != nil {
		return err
	}
	files["bundle/tests/scorecard/config.yaml"], err = marshal(scorecard())
	return err
}

func scorecard() v1alpha3.Configuration {
	stage := v1alpha3.StageConfiguration{Parallel: true}
	for _, test := range scorecardTests {
		stage.Tests = append(stage.Tests, v1alpha3.TestConfiguration{Image: scorecardImage,
			Entrypoint: []string{"scorecard-test", test.value},
			Labels:     map[string]string{"suite": test.name, "test": test.value + "-test"}})
	}
	config := v1alpha3.Configuration{Stages: []v1alpha3.StageConfiguration{stage}}
	config.APIVersion, config.Kind, config.Metadata.Name = "scorecard.operatorframework.io/v1alpha3", v1alpha3.ConfigurationKind, "config"
	return config
}
