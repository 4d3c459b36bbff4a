package addressapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"

	networkv1alpha1 "github.com/weft-network/weft/apis/network/v1alpha1"
)

// Resources whose rights decide.
const (
	floatingIPs = "floatingips"
	ipPools     = "ippools"
)

// right is what a user needs for an operation: a verb of Kubernetes on a resource.
type right struct {
	verb, resource string
	// parameter is the path's parameter with the object's name; empty: the right is on all objects.
	parameter string
	// perObject says that a user without the right on all objects may have it on those in the body. The handler checks.
	perObject bool
}

func (r right) String() string { return r.verb + " " + r.resource + "." + networkv1alpha1.GroupName }

// userKey is the key of the user in a request's context.
type userKey struct{}

// requester is the user of a request.
type requester struct {
	authenticationv1.UserInfo
	// everything says that the user has the operation's right on all objects.
	everything bool
}

// authorize returns a middleware that admits users with a right. Neither the body nor the parameters are read before.
func (a *API) authorize(needed right) func(huma.Context, func(huma.Context)) {
	return func(ctx huma.Context, next func(huma.Context)) {
		user, err := a.authenticate(ctx.Context(), ctx.Header("Authorization"))
		if err != nil {
			a.refuse(ctx, err)
			return
		}
		name := ""
		if needed.parameter != "" {
			name = objectName(needed.resource, ctx.Param(needed.parameter))
		}
		err = a.review(ctx.Context(), user, needed, name)
		if err != nil && (!needed.perObject || !isForbidden(err)) {
			a.refuse(ctx, err)
			return
		}
		next(huma.WithValue(ctx, userKey{}, &requester{user, err == nil}))
	}
}

func isForbidden(err error) bool {
	var p *Problem
	return errors.As(err, &p) && p.Status == http.StatusForbidden
}

// refuse writes an error before the handler is reached.
func (a *API) refuse(ctx huma.Context, err error) {
	var p *Problem
	if !errors.As(err, &p) {
		a.log.Error(err, "cannot check the user of a request", "operation", ctx.Operation().OperationID)
		p = problem(http.StatusInternalServerError, err.Error())
	}
	if p.Status == http.StatusUnauthorized {
		ctx.SetHeader("WWW-Authenticate", `Bearer realm="weft"`)
	}
	_ = huma.WriteErr(a.huma, ctx, p.Status, p.Detail) // a client that went away reads nothing
}

// authenticate returns the user of a token, by a TokenReview. The error is a Problem with status 401 if the token is not valid.
func (a *API) authenticate(ctx context.Context, header string) (user authenticationv1.UserInfo, err error) {
	scheme, token, _ := strings.Cut(header, " ")
	if token = strings.TrimSpace(token); !strings.EqualFold(scheme, "Bearer") || token == "" {
		return user, problem(http.StatusUnauthorized, "a request needs the header Authorization: Bearer, with a token of Kubernetes")
	}
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: a.audiences}}
	if err := a.client.Create(ctx, review); err != nil {
		return user, fromServer(err, http.StatusInternalServerError)
	}
	// A server that does not know audiences returns none: the token is then for the API server alone.
	isFor := func(audience string) bool { return slices.Contains(review.Status.Audiences, audience) }
	if !review.Status.Authenticated || len(a.audiences) > 0 && !slices.ContainsFunc(a.audiences, isFor) {
		return user, problem(http.StatusUnauthorized, "the token is not valid: it may have expired, or be for another audience")
	}
	return review.Status.User, nil
}

// review returns an error unless a user has a right, by a SubjectAccessReview. It is a Problem with status 403 if RBAC denies.
func (a *API) review(ctx context.Context, user authenticationv1.UserInfo, needed right, name string) error {
	extra := make(map[string]authorizationv1.ExtraValue, len(user.Extra))
	for key, values := range user.Extra {
		extra[key] = authorizationv1.ExtraValue(values)
	}
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user.Username, UID: user.UID, Groups: user.Groups, Extra: extra,
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: needed.verb, Group: networkv1alpha1.GroupName,
			Version: networkv1alpha1.GroupVersion.Version, Resource: needed.resource, Name: name},
	}}
	if err := a.client.Create(ctx, review); err != nil {
		return fromServer(err, http.StatusInternalServerError)
	}
	if review.Status.Allowed && !review.Status.Denied {
		return nil
	}
	what := needed.String()
	if name != "" {
		what += " " + name
	}
	return problem(http.StatusForbidden, fmt.Sprintf("user %s has no right to %s", user.Username, what))
}

// mayOn checks the right of an operation on one object of its body.
func (a *API) mayOn(ctx context.Context, needed right, name string) error {
	user, ok := ctx.Value(userKey{}).(*requester)
	if !ok {
		return problem(http.StatusUnauthorized, "the request has no user")
	}
	if user.everything {
		return nil
	}
	return a.review(ctx, user.UserInfo, needed, name)
}

// objectName returns the name of the object that a parameter of a path is about.
func objectName(resource, parameter string) string {
	if resource == floatingIPs {
		if address, err := parseAddress(parameter); err == nil {
			return networkv1alpha1.FloatingIPName(address)
		}
	}
	return parameter
}
