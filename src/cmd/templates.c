/* hutch-templates - the responder for templates and snapshots. */
#include "../responder/responder.h"

int main(int argc, char **argv)
{
	return responder_main(argc, argv, "hutch-templates", templates_routes, templates_routes_count);
}
