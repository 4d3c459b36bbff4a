package ui

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Refusal is why something could not be read.
type Refusal struct {
	Message string `json:"message"`
	// Right is the permission that the user lacks: "list pods cluster-wide". It is empty for other failures.
	Right string `json:"right,omitempty"`
}

// refusalOf describes an error. explain replaces the text of errors that do not explain themselves.
func refusalOf(err error, explain func(error) error) *Refusal {
	return &Refusal{Message: explain(err).Error(), Right: missingRight(err)}
}

// refused matches the words of the API server about a permission that a user lacks.
var refused = regexp.MustCompile(`cannot (\S+) resource "([^"]+)" in API group "([^"]*)"` +
	`(?: in the namespace "([^"]*)"| at the cluster scope)?`)

// missingRight returns the permission that an error of the API server names, or "".
func missingRight(err error) string {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	if !ok || !apierrors.IsForbidden(err) {
		return ""
	}
	found := refused.FindStringSubmatch(status.ErrStatus.Message)
	if found == nil {
		return "unknown: " + status.ErrStatus.Message
	}
	resource, where := found[2], "cluster-wide"
	if found[3] != "" {
		resource += "." + found[3]
	}
	if found[4] != "" {
		where = "in namespace " + found[4]
	}
	return fmt.Sprintf("%s %s %s", found[1], resource, where)
}

// fail answers with an error.
func fail(w http.ResponseWriter, code int, message string) {
	answer(w, code, Refusal{Message: message})
}

// answer writes a value as JSON.
func answer(w http.ResponseWriter, code int, value any) {
	text, err := json.Marshal(value)
	if err != nil {
		code, text = http.StatusInternalServerError, []byte(`{"message":"cannot encode the answer"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(text) // a browser that has gone needs no answer
}

// answerOr answers with a value, or with the reason for its absence: 403 for a permission that the user lacks, and
// 422 for other reasons.
func (s *Server) answerOr(w http.ResponseWriter, value any, err error) {
	switch {
	case err == nil:
		answer(w, http.StatusOK, value)
	case apierrors.IsForbidden(err):
		answer(w, http.StatusForbidden, refusalOf(err, s.cluster.Explain))
	default:
		answer(w, http.StatusUnprocessableEntity, refusalOf(err, s.cluster.Explain))
	}
}
