package addressapi

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Problem is the body of each error (RFC 9457).
type Problem struct {
	Status int            `json:"status" example:"400" doc:"Status code."`
	Title  string         `json:"title" example:"Bad Request" doc:"Text of the status code."`
	Detail string         `json:"detail" doc:"What is wrong, and with which object."`
	Errors []ProblemField `json:"errors,omitempty" nullable:"false" doc:"The fields and parameters that are wrong."`
}

// ProblemField is a field of the body or a parameter, and what is wrong with it.
type ProblemField struct {
	Pointer   string `json:"pointer,omitempty" example:"#/spec/ranges/0/addresses" doc:"JSON pointer of the field in the body (RFC 6901)."`
	Parameter string `json:"parameter,omitempty" example:"limit" doc:"Name of the parameter in the path or the query."`
	Detail    string `json:"detail" doc:"What is wrong with it."`
}

// Error implements error.
func (p *Problem) Error() string { return p.Detail }

// GetStatus implements huma.StatusError.
func (p *Problem) GetStatus() int { return p.Status }

// ContentType implements huma.ContentTypeFilter.
func (*Problem) ContentType(string) string { return problemType }

const problemType = "application/problem+json"

// problem returns an error with a status code.
func problem(status int, detail string, fields ...ProblemField) *Problem {
	return &Problem{Status: status, Title: http.StatusText(status), Detail: detail, Errors: fields}
}

func problemf(status int, format string, args ...any) *Problem {
	return problem(status, fmt.Sprintf(format, args...))
}

// init makes huma report errors as Problem. huma has no setting of an API for that, only these variables of its package.
func init() {
	huma.ValidateStrictCasing = true // the document's names are case-sensitive
	huma.NewError = func(status int, message string, errs ...error) huma.StatusError {
		return invalid(status, message, errs)
	}
	huma.NewErrorWithContext = func(ctx huma.Context, status int, message string, errs ...error) huma.StatusError {
		if body, ok := ctx.Context().Value(bodyKey{}).(*capture); ok {
			errs = body.locate(ctx.Operation(), errs)
		}
		return invalid(status, message, errs)
	}
}

// invalid returns the error of a request that huma refuses. huma's status 422 for what the document does not permit is
// 400 here: 422 means that the API server refuses the object.
func invalid(status int, message string, errs []error) *Problem {
	if status == http.StatusUnprocessableEntity {
		status = http.StatusBadRequest
	}
	p := problem(status, message)
	for _, err := range errs {
		field := ProblemField{Detail: err.Error()}
		var detail *huma.ErrorDetail
		if errors.As(err, &detail) {
			field = fieldOf(detail)
		}
		p.Errors = append(p.Errors, field)
	}
	if len(p.Errors) > 0 {
		p.Detail += ": " + p.Errors[0].String()
	}
	return p
}

// String renders the field for a message: "#/spec/size: expected number <= 4096".
func (f ProblemField) String() string {
	if where := f.Pointer + f.Parameter; where != "" {
		return where + ": " + f.Detail
	}
	return f.Detail
}

// fieldOf names the field of an error of huma. A missing property is named itself, not the object that lacks it.
func fieldOf(detail *huma.ErrorDetail) ProblemField {
	field := ProblemField{Detail: detail.Message}
	if location, ok := strings.CutPrefix(detail.Location, "body"); ok {
		field.Pointer = pointer(location)
		if name, ok := strings.CutPrefix(detail.Message, "expected required property "); ok {
			field.Pointer += pointer(strings.TrimSuffix(name, " to be present"))[1:]
		}
		return field
	}
	_, field.Parameter, _ = strings.Cut(detail.Location, ".")
	return field
}

// pointer returns the JSON pointer of a location such as "spec.ranges[0].addresses".
func pointer(location string) string {
	var b strings.Builder
	b.WriteString("#")
	for location = strings.TrimPrefix(location, "."); location != ""; location = strings.TrimPrefix(location, ".") {
		var token string
		if inner, ok := strings.CutPrefix(location, "["); ok {
			token, location, _ = strings.Cut(inner, "]")
		} else if end := strings.IndexAny(location, ".["); end > 0 {
			token, location = location[:end], location[end:]
		} else {
			token, location = location, ""
		}
		b.WriteString("/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(plainKeys.Replace(token)))
	}
	return b.String()
}

// fromServer returns the error for one of the API server. denied is the status of what an admission policy or webhook
// refuses.
func fromServer(err error, denied int) error {
	if own := (*Problem)(nil); errors.As(err, &own) {
		return own
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return unavailable(err)
	}
	switch reply := status.Status(); {
	case apierrors.IsNotFound(err):
		return problem(http.StatusNotFound, reply.Message)
	case apierrors.IsAlreadyExists(err), apierrors.IsConflict(err):
		return problem(http.StatusConflict, reply.Message)
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		p := problem(http.StatusUnprocessableEntity, reply.Message)
		if reply.Details != nil {
			for _, cause := range reply.Details.Causes {
				p.Errors = append(p.Errors, ProblemField{Pointer: pointer(cause.Field), Detail: cause.Message})
			}
		}
		return p
	case apierrors.IsForbidden(err) && strings.Contains(reply.Message, "denied"):
		return problem(denied, reply.Message)
	case reply.Code >= http.StatusBadRequest && reply.Code < http.StatusInternalServerError && reply.Code != http.StatusTooManyRequests:
		return fmt.Errorf("the API server refuses this program: %w", err) // its rights are missing
	}
	return unavailable(err)
}

// unavailable returns the error for an API server that cannot be reached.
func unavailable(err error) error {
	return problem(http.StatusServiceUnavailable, "the Kubernetes API server does not respond: "+err.Error())
}
