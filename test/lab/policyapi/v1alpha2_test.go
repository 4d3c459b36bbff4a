//go:build !v1alpha1

package policyapi

import (
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"
	"sigs.k8s.io/network-policy-api/conformance/utils/suite"
)

var (
	install  = v1alpha2.Install
	profiles = sets.New(suite.CNPConformanceProfileName)
)
