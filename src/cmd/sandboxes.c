/* hutch-sandboxes - the responder for sandboxes. */
#include "../responder/responder.h"

int main(int argc, char **argv)
{
	return responder_main(argc, argv, "hutch-sandboxes", sandboxes_routes, sandboxes_routes_count);
}
