//go:build !linux && !darwin

package peer

import "errors"

func pidOf(int) (int, error) { return 0, errors.ErrUnsupported }
